"""The documents are true: their code runs, their specs are valid, their commands exist, their tables hold."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer

import attndyn
from attndyn import registry
from attndyn.cli.main import DIVERGED, INTERRUPTED, USAGE, app
from attndyn.errors import AnalyzersFailed, SpecError
from attndyn.spec import load_spec, parse_spec

ROOT = Path(__file__).parents[1]
DOCS = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
TEXT = {name: (ROOT / name).read_text("utf-8") for name in DOCS}
COMMANDS = typer.main.get_command(app).commands
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
OTHER_TOOLS = {"source", "pytest", ".venv/bin/pytest", ".venv/bin/pip", ".venv/bin/pre-commit"}


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def lay_out(text: str, folder: Path) -> str:
    """Write the blocks that begin with the name of a file; what is left of the Python ones is one script."""
    script = []
    for language in ("python", "yaml"):
        for block in blocks(text, language):
            if named := re.match(r"# (\w+\.(?:py|yaml))\n", block):
                (folder / named[1]).write_text(block, "utf-8")
            elif language == "python":
                script.append(block)
    return "\n".join(script)


def table(text: str, heading: str) -> list[dict[str, str]]:
    """The rows of the first table after `heading`, by the names of its columns; code marks taken off."""
    lines = iter(text[text.index(heading) :].splitlines())
    rows = []
    for line in lines:
        if line.startswith("|"):
            rows.append([cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        elif rows:
            break
    names, _, *rest = rows
    return [dict(zip(names, (cell.strip("`") for cell in row), strict=True)) for row in rest]


def options(command: str) -> set[str]:
    """Every option of an `attndyn` command, as it is typed."""
    parameters = COMMANDS[command].params
    names = {name for parameter in parameters for name in parameter.opts + parameter.secondary_opts}
    return {name for name in names if name.startswith("--")}


def complaint(line: str) -> str:
    """What is wrong with a shell command; empty if nothing is."""
    words = shlex.split(line, comments=True)
    if not words or words[0] in OTHER_TOOLS:
        return ""
    words = words[: words.index(">")] if ">" in words else words
    if words[0] == "make":
        targets = [word for word in words[1:] if "=" not in word]
        return "" if targets and TARGETS.issuperset(targets) else f"no such target: {line}"
    if words[0] != "attndyn" or len(words) < 2 or words[1] not in COMMANDS:
        return f"no such command: {line}"
    given = {word.split("=")[0] for word in words[2:] if word.startswith("--")}
    return "" if given <= options(words[1]) else f"no such option: {line}"


@pytest.mark.parametrize("name", DOCS)
def test_every_block_is_in_a_language_that_is_tested(name):
    fences = re.findall(r"^```(.*)$", TEXT[name], re.MULTILINE)
    assert set(fences[::2]) <= {"python", "yaml", "sh", "toml", "text"}
    assert set(fences[1::2]) <= {""}


@pytest.mark.parametrize("name", [name for name in DOCS if blocks(TEXT[name], "python")])
def test_python_runs(name, tmp_path):
    """All blocks of a document, one after the other, beside its specs; in a process of their own."""
    (tmp_path / "specs").symlink_to(ROOT / "specs")
    script = tmp_path / "blocks.py"
    script.write_text(lay_out(TEXT[name], tmp_path), "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", [n for n in DOCS if n != "docs/specs.md"])
def test_specs_are_valid(name, tmp_path):
    """docs/specs.md explains parts of specs; tests/spec/test_spec_docs.py puts them into whole ones."""
    lay_out(TEXT[name], tmp_path)
    with registry.isolated():
        for block in blocks(TEXT[name], "yaml"):
            parse_spec(block, name, folder=tmp_path)


def test_the_architecture_to_write_is_short_and_the_problem_shown_is_the_problem_found(tmp_path):
    lay_out(TEXT["docs/plugins.md"], tmp_path)
    plugin = tmp_path / "learned_temperature.py"
    text = plugin.read_text("utf-8")
    assert len(text.splitlines()) < 80
    plugin.write_text(text.replace('"learned_temperature"', '"residual"'), "utf-8")
    with registry.isolated(), pytest.raises(SpecError) as caught:
        load_spec(tmp_path / "warm.yaml")
    shown = blocks(TEXT["docs/plugins.md"], "text")[0]
    assert (
        str(caught.value).replace(f"{tmp_path}/warm", "warm").replace(str(tmp_path), "/home/me") == shown[:-1]
    )


@pytest.mark.parametrize("name", DOCS)
def test_commands_exist(name):
    in_blocks = [line for block in blocks(TEXT[name], "sh") for line in block.splitlines()]
    in_text = re.findall(r"`((?:attndyn|make) [^`]+)`", TEXT[name])
    assert [wrong for command in in_blocks + in_text if (wrong := complaint(command))] == []


@pytest.mark.parametrize(
    "command", ["attndyn rum x.yaml", "attndyn run --sett a=1", "make tset", "make", "rm x", "attndyn"]
)
def test_commands_that_do_not_exist_are_noticed(command):
    assert complaint(command)


@pytest.mark.parametrize("name", DOCS)
def test_links_lead_somewhere(name):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", TEXT[name])
    inside = [link for link in links if not link.startswith("https://")]
    assert [link for link in inside if not ((ROOT / name).parent / link).exists()] == []


def test_documents_named_in_code_exist():
    tops = ("engine", "plugins", "specs", "benchmarks")
    files = [path for top in tops for path in (ROOT / top).rglob("*.*")]
    sources = [path.read_text("utf-8") for path in files if path.suffix in {".py", ".yaml", ".sh"}]
    named = {name for source in sources for name in re.findall(r"docs/\w+\.md", source)}
    assert named, "the schema names docs/trajectory.md"
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_readme_lists_every_command_and_every_option_of_run():
    rows = table(TEXT["README.md"], "## Commands")
    assert [row["command"].split()[1] for row in rows] == list(COMMANDS)
    missing = {option for option in options("run") if option not in rows[0]["what it does"]}
    # what is the default needs no mention
    assert missing == {"--analyze"}


def test_readme_lists_the_exit_codes():
    codes = {int(row["exit code"]) for row in table(TEXT["README.md"], "| exit code")}
    assert codes == {0, 1, USAGE, DIVERGED, AnalyzersFailed.exit_code, INTERRUPTED}


# -- docs/trajectory.md against the file of a real run ----------------------------------------------------

TRAJECTORY = TEXT["docs/trajectory.md"]


SPEC = """
name: documented
data: {data}
model: {{architecture: pure_attention, d_model: 5, value_projection: true, attention: {attention}}}
optimizer: {{kind: gd, lr: 0.1}}
training: {{steps: 6}}
replicas: {{vary: {{optimizer.lr: [0.1, 0.2]}}}}
probes: {probes}
analyzers: [norms]
"""
CHAIN = {
    "data": """{kind: markov, stationary: {kind: geometric, d_vocab: 4, ratio: 0.4},
                transition: {kind: sticky, lam: 0.5}, n_ctx: 12, batch: 7}""",
    "probes": """{loss: {every: 1}, attention: {every: 2}, parameters: {every: 4}, gradients: {every: 4},
                  invariants: {every: 3}}""",
}
PROBES = registry.names("probe")
WORDS = " ".join(f"w{i * i % 11}" for i in range(90))
TEXT_OF_WORDS = {
    "data": f"""{{kind: corpus, source: {{kind: text, text: "{WORDS}"}}, tokenizer: {{kind: word, size: 4}},
                  n_ctx: 12, batch: 7, held_out: 0.4}}""",
    "probes": "{" + ", ".join(f"{name}: {{every: 2}}" for name in PROBES) + "}",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    spec = parse_spec(SPEC.format(**CHAIN, attention="full"))
    run = attndyn.run(spec, tmp_path_factory.mktemp("documented"))
    run.analyze()
    return run


@pytest.fixture(scope="module")
def text_run(tmp_path_factory):
    """On a text, a part of it held out, with every probe that there is."""
    spec = parse_spec(SPEC.format(**TEXT_OF_WORDS, attention="causal"))
    return attndyn.run(spec, tmp_path_factory.mktemp("documented-text"))


def documented(heading, *absent):
    """Dimensions, units and symbol by name; without those that are present on other occasions only."""
    absent = {"where an architecture has it", *absent}
    return {
        row["name"]: (row["dimensions"].split(", or ")[-1], row["units"], row["symbol"])
        for row in table(TRAJECTORY, heading)
        if row.get("present") not in absent
    }


def recorded(variables):
    """The same of the file."""
    return {
        name: (", ".join(variable.dims), variable.attrs["units"], variable.attrs.get("symbol", ""))
        for name, variable in variables.items()
    }


def test_root_attributes(run):
    rows = table(TRAJECTORY, "Root attributes")
    assert {row["attribute"] for row in rows} == run.trajectory.attrs.keys()
    assert run.trajectory.attrs["Conventions"] in TRAJECTORY


# what the run of these tests varies
VARIED = {"lr": ("replica", "1", "")}


def test_root_coordinates(run, text_run):
    assert recorded(run.trajectory.coords) == documented("### Root coordinates", "for a text") | VARIED
    assert recorded(text_run.trajectory.coords) == documented("### Root coordinates") | VARIED


def test_every_probe_is_documented(text_run):
    headings = re.findall(r"^### /(\w+)$", TRAJECTORY, re.MULTILINE)
    assert set(headings) == {*PROBES, "pairs"} == set(text_run.trajectory.children)
    assert {row["probe"] for row in table(TEXT["docs/specs.md"], "| probe | records |")} == set(PROBES)


def test_pairs(text_run):
    pairs = text_run.trajectory["pairs"].to_dataset(inherit=False)
    assert recorded(pairs.variables) == documented("### /pairs")


@pytest.mark.parametrize("group", sorted(set(PROBES) - {"gradients"}))
def test_variables_of_a_group(run, text_run, group):
    everywhere = documented("### Coordinates of every group") | VARIED
    for trajectory in (run.trajectory, text_run.trajectory):
        if group in trajectory.children:
            variables = trajectory[group].to_dataset(inherit=False).variables
            assert recorded(variables) == everywhere | documented(f"### /{group}")


@pytest.mark.parametrize("group", PROBES)
def test_what_may_be_nan_says_so(text_run, group):
    variables = text_run.trajectory[group].to_dataset(inherit=False).data_vars
    rows = {row["name"]: row["what it is"] for row in table(TRAJECTORY, f"### /{group}")}
    for name, variable in variables.items():
        if "comment" in variable.attrs and group != "attention":  # there below the table
            assert variable.attrs["comment"] in rows[name]
        assert "comment" in variable.attrs or variable.notnull().all()


def test_gradients_are_like_parameters(run):
    variables = run.trajectory["gradients"].to_dataset(inherit=False).data_vars
    assert recorded(variables) == {
        name: (dims, "nats", rf"\nabla_{{{name}}} L")
        for name, (dims, *_) in documented("### /parameters").items()
    }


def test_dimensions_are_in_the_glossary(text_run):
    names = " ".join(row["name"] for row in table(TRAJECTORY, "## Dimensions"))
    glossary = set(re.findall(r"\w+", names))
    assert glossary == {str(dim) for node in text_run.trajectory.subtree for dim in node.sizes}


def test_files_and_status(run):
    rows = table(TRAJECTORY, "## A run's directory")
    written = {path.name for path in run.directory.iterdir()}
    assert written == {row["file"] for row in rows} - {"figures/", "report.html"}
    assert all(f"`{key}`" in TRAJECTORY for key in run.status)
    assert run.status["state"] in {row["state"] for row in table(TRAJECTORY, "`status.json` holds")}


def test_checkpoint(run):
    with np.load(run.directory / "checkpoint.npz") as arrays:
        assert {"step", "parameters", "diverged_at"} == {n for n in arrays if not n.startswith("optimizer.")}
