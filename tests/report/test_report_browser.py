"""The page in a real browser: images decode, nothing is logged, nothing sticks out, nothing runs."""

import json
import re
import subprocess

import pytest

import attndyn
from attndyn.report import write_report
from attndyn.spec import parse_spec

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--enable-logging=stderr", "--v=0"),
)
HOSTILE = "<script>document.title = 'ran'</script><img src=x onerror=\"document.title = 'ran'\">"
SPEC = """
name: tiny
data:
  kind: markov
  stationary: {kind: geometric, d_vocab: 4, ratio: 0.4}
  transition: {kind: sticky, lam: 0.5}
  n_ctx: 12
  batch: 7
model: {architecture: pure_attention, d_model: 5, init: {kind: normal, std: 0.3}}
optimizer: {kind: adam, lr: 1e-2}
training: {steps: 8}
replicas: {seeds: 12}
probes: {loss: {every: 1}, attention: {every: 2}, parameters: {every: 2}}
analyzers: [stages, cosine, norms]
"""
# goes into a copy of the page, and tells the frame around it what it finds once everything has loaded
MEASURE = """<script>addEventListener("load", () => {
  const found = {
    title: document.title,
    width: innerWidth,
    content: document.documentElement.scrollWidth,
    images: [...document.images].map(image => image.complete && image.naturalWidth > 0),
  };
  parent.postMessage(found, "*");
});</script>"""
# a frame can be as narrow as a phone, which a window of a desktop's browser cannot
FRAME = """<!doctype html><script>
addEventListener("message", event => document.body.replaceChildren(JSON.stringify(event.data)));
</script><body><iframe src="PAGE" width="WIDTH" height="800" style="border: 0"></iframe></body>"""

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    spec = parse_spec(SPEC).model_copy(update={"description": HOSTILE})
    return write_report(attndyn.run(spec, tmp_path_factory.mktemp("run")))


@pytest.fixture
def browse(tmp_path):
    """A function from a page to the DOM after loading, and what the console said."""

    def load(page):
        command = ["chromium", *FLAGS, f"--user-data-dir={tmp_path / 'profile'}"]
        command += ["--window-size=1400,900", "--virtual-time-budget=20000", "--dump-dom", page.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout, re.findall(r".*CONSOLE.*", done.stderr)

    return load


@pytest.fixture
def measure(browse, tmp_path):
    """A function from a page with `MEASURE` in it, and a width, to what was found there, and the console."""

    def load(page, width):
        frame = tmp_path / "frame.html"
        frame.write_text(FRAME.replace("PAGE", page.as_uri()).replace("WIDTH", str(width)), "utf-8")
        dom, console = browse(frame)
        return json.loads(re.search(r"<body>(.*?)</body>", dom, re.DOTALL).group(1)), console

    return load


def changed(report, path, added, allow_scripts=True):
    """A copy of the page with something added at its end, and scripts allowed to run."""
    text = report.read_text("utf-8")
    if allow_scripts:
        assert "default-src 'none';" in text
        text = text.replace("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';")
    path.write_text(text.replace("</body>", f"{added}</body>"), "utf-8")
    return path


def test_the_page_loads_without_a_word(report, browse):
    dom, console = browse(report)
    assert "<h1>tiny</h1>" in dom
    assert console == []


@pytest.mark.parametrize("width", [1200, 390])
def test_images_decode_and_nothing_sticks_out(report, measure, tmp_path, width):
    found, _ = measure(changed(report, tmp_path / "copy.html", MEASURE), width)
    assert found["width"] == width
    assert found["content"] <= width
    assert found["images"] == [True] * 4
    assert found["title"] == "tiny – attndyn report"  # even where scripts may run, the spec's do not


def test_these_checks_can_fail(report, measure, tmp_path):
    broken = '<img src="data:image/png;base64,AAAA"><div style="width: 3000px">wide</div>'
    page = changed(report, tmp_path / "copy.html", f"{broken}{HOSTILE}{MEASURE}")
    found, console = measure(page, 1200)
    assert found["content"] >= 3000
    assert found["images"] == [True] * 4 + [False] * 2
    assert found["title"] == "ran"
    assert console  # the image from elsewhere was refused


def test_the_page_lets_no_script_run(report, browse, tmp_path):
    dom, console = browse(changed(report, tmp_path / "copy.html", HOSTILE, allow_scripts=False))
    assert "<title>tiny – attndyn report</title>" in dom
    assert any("Content Security Policy" in line for line in console)
