"""The chain of a text and its sticky fit, on chains that are sticky and some that are not; runs beside it."""

import numpy as np
import pytest
import xarray as xr

import attndyn
from attndyn import registry
from attndyn.analysis.same_tokens import same_tokens
from attndyn.analysis.sticky_fit import fit_sticky, lumped
from attndyn.conformance.example_runs import recorded
from attndyn.errors import RunError, SpecError
from attndyn.spec import load_spec, parse_spec

PI = np.array([0.4, 0.3, 0.2, 0.1])
SPEC = """
name: proxy
data: {{kind: markov, stationary: {{kind: geometric, d_vocab: 5, ratio: 0.5}},
       transition: {{kind: sticky, lam: {lam}}}, n_ctx: 8, batch: 6}}
model: {{architecture: transformer, d_model: 4, attention: causal}}
optimizer: {{kind: adam, lr: 1.0e-2}}
training: {{steps: 12, loss_positions: all}}
replicas: {{seeds: 2}}
probes: {{loss: {{every: 1}}, token_classes: {{every: 3, most: 2}}}}
"""
STEPS = np.arange(0, 401, 4)


def sticky(lam):
    return lam * np.eye(4) + (1 - lam) * PI


@pytest.mark.parametrize("lam", [0.0, 0.3, 0.9])
def test_a_sticky_chain_is_found_again(lam):
    found = fit_sticky(PI, sticky(lam))
    assert found.lam == pytest.approx(lam, abs=1e-12)
    assert found.missed == pytest.approx(0, abs=1e-12)
    if lam:
        assert found.explained == pytest.approx(1)


def test_a_cycle_is_not_sticky():
    found = fit_sticky(np.full(4, 0.25), np.roll(np.eye(4), 1, axis=1))
    assert found.lam == pytest.approx(-1 / 3)
    assert found.explained == 0
    assert found.missed == pytest.approx(found.information) == pytest.approx(np.log(4))


def test_what_alternates_is_told_from_what_stays():
    """Both are a line through independent tokens, in opposite directions; only one of them is sticky."""
    half = np.full(2, 0.5)
    alternating, staying = fit_sticky(half, np.eye(2)[::-1]), fit_sticky(half, np.eye(2))
    assert (alternating.lam, alternating.explained) == (pytest.approx(-1), 0)
    assert (staying.lam, staying.explained) == (pytest.approx(1), pytest.approx(1))


def test_the_share_explained_by_hand():
    """P = 1πᵀ + a(I - 1πᵀ) + bK with K at right angles to the first direction: a²|I - 1πᵀ|² of the whole."""
    pi = np.full(4, 0.25)
    beyond = np.zeros((4, 4))
    beyond[[0, 1, 2, 3], [1, 0, 3, 2]], beyond[[0, 1, 2, 3], [2, 3, 0, 1]] = 1, -1
    a, b = 0.1, 0.2
    found = fit_sticky(pi, pi + a * (np.eye(4) - pi) + b * beyond)
    assert found.lam == pytest.approx(a)
    assert found.explained == pytest.approx(a**2 * 3 / (a**2 * 3 + b**2 * 8))


def test_least_squares_is_least():
    rng = np.random.default_rng(0)
    chain = rng.dirichlet(np.ones(4), size=4)
    values, vectors = np.linalg.eig(chain.T)
    pi = np.real(vectors[:, np.argmax(values.real)])
    pi = pi / pi.sum()
    lam = fit_sticky(pi, chain).lam

    def off(x):
        return (pi[:, None] * (chain - x * np.eye(4) - (1 - x) * pi) ** 2).sum()

    assert off(lam) < min(off(lam - 1e-4), off(lam + 1e-4))


def test_lumping_a_sticky_chain_leaves_it_sticky():
    pi, chain = lumped(PI, PI[:, None] * sticky(0.3), np.array([1, 0]))
    np.testing.assert_allclose(pi, [0.3, 0.4, 0.3])
    np.testing.assert_allclose(chain[:2], 0.3 * np.eye(3)[:2] + 0.7 * pi)


@pytest.fixture(scope="module")
def trajectory():
    return recorded(parse_spec(SPEC.format(lam=0.4)))


def test_fit_of_a_run(trajectory, run_analyzer, draw_analyzer, words):
    for tokens in (2, 8):
        found = run_analyzer("proxy", trajectory, tokens=tokens)
        np.testing.assert_allclose(found["repeats"][0, 0], 0.4 + 0.6 * found["chain_pi"][0, 0], rtol=1e-12)
        assert found["kept"].values.tolist()[-1] == ("<others>" if tokens == 2 else "4")
        if tokens == 8:
            np.testing.assert_allclose(found["lam"], 0.4, rtol=1e-12)
            np.testing.assert_allclose(found["chain_transition"], trajectory["transition"], rtol=1e-12)
        assert found["fits"].all()
        assert not {"proxy_step", "ratio"} & set(found)
    shown = words(draw_analyzer("proxy", trajectory))
    assert not {"synthetic", "<rest>"} & set(shown)
    independent = recorded(parse_spec(SPEC.format(lam=0.0)))
    assert not run_analyzer("proxy", independent)["fits"].any()


def rows(a, b):
    """0.25 + a (I - 0.25) + b K with K antisymmetric: of no direction in time for b = 0; 3 a² to 8 b²."""
    turning = np.roll(np.eye(4), 1, axis=1) - np.roll(np.eye(4), 1, axis=0)
    return 0.25 + a * (np.eye(4) - 0.25) + b * turning


@pytest.mark.parametrize(
    ("a", "b", "fits"), [(0.2, 0.03, True), (0.2, 0.12, True), (0.2, 0.13, False), (-0.2, 0, False)]
)
def test_it_fits_from_half_on(a, b, fits, run_analyzer):
    data = {"kind": "explicit", "matrix": rows(a, b).tolist()}
    changes = (f"data={{kind: markov, transition: {data}, n_ctx: 8, batch: 6}}", "replicas.seeds=1")
    found = run_analyzer("proxy", recorded(parse_spec(SPEC.format(lam=0), overrides=changes)))
    share = 3 * a**2 / (3 * a**2 + 8 * b**2) if a > 0 else 0
    np.testing.assert_allclose(found["explained"], share, rtol=1e-9)
    assert (found["fits"] == fits).all()
    order = found["kept"].values.astype(int)
    np.testing.assert_allclose(found["chain_transition"][0], rows(a, b)[np.ix_(order, order)], rtol=1e-9)


def test_the_chain_of_a_text(run_analyzer):
    """Counted by hand; a text read backwards has another one."""
    text = "a b c a b c a b d d " * 20 + "a"
    source = f"{{kind: corpus, source: {{kind: text, text: {text}}}, n_ctx: 8, batch: 6}}"
    tree = recorded(parse_spec(SPEC.format(lam=0), overrides=[f"data={source}", "replicas.seeds=1"]))
    found = run_analyzer("proxy", tree, tokens=2).isel(replica=0)
    assert found["kept"].values.tolist() == found["next_kept"].values.tolist() == ["a", "b", "<others>"]
    np.testing.assert_allclose(found["chain_pi"], np.array([61, 60, 80]) / 201)
    np.testing.assert_allclose(found["chain_transition"], [[0, 1, 0], [0, 0, 1], [0.75, 0, 0.25]])


def bumps(tokens, peaks, seeds=2, named=None, **attrs):
    """A trajectory whose ratio for each token rises to 3 and falls, the top at a step; none for 0."""
    named = list(peaks) if named is None else named
    top = np.array([peaks[name] for name in named], float)
    wide = np.where(top > 0, top / 4, 1)
    ratio = 1 + 2 * (top > 0) * np.exp(-(((STEPS[:, None] - top) / wide) ** 2))
    pi = np.arange(len(tokens), 0, -1.0) / np.arange(len(tokens) + 1).sum()
    shape = (seeds, len(STEPS), 1, 1, len(named))
    attention = ("replica", "step", "layer", "head", "named"), np.broadcast_to(ratio[:, None, None], shape)
    uniform = ("replica", "step", "named"), np.ones((seeds, len(STEPS), len(named)))
    square = np.broadcast_to(pi, (seeds, len(tokens), len(tokens)))
    root = xr.Dataset(
        {},
        {
            "replica": np.arange(seeds),
            "token": tokens,
            "pi": (("replica", "token"), square[:, 0]),
            "transition": (("replica", "token", "next_token"), square),
        },
        {"attndyn_version": "0", **attrs},
    )
    classes = {"attention_token": attention, "uniform_token": uniform}
    group = xr.Dataset(classes, {"step": STEPS, "named": named})
    return xr.DataTree.from_dict({"/": root, "/token_classes": group})


def laid(directory, tree):
    """The directory of a run with that trajectory."""
    directory.mkdir()
    (directory / "spec.yaml").write_text("name: laid")
    tree.to_netcdf(directory / "trajectory.nc", engine="netcdf4")
    return str(directory)


def peak(found, name):
    return found[name].sel(stage="peak", drop=True)


def test_tokens_are_compared_by_label(tmp_path, run_analyzer):
    text = bumps(list("abcd"), {"c": 40, "a": 160, "d": 80})
    chain = laid(tmp_path / "chain", bumps(list("dace"), {"a": 80, "c": 60, "e": 20}, seeds=3))
    found = run_analyzer("proxy", text, run=chain)
    assert found["named"].values.tolist() == ["c", "a", "d"]
    np.testing.assert_allclose(peak(found, "stage_step"), [[40, 160, 80]] * 2, rtol=0.05)
    np.testing.assert_allclose(peak(found, "proxy_step"), [[60, 80, np.nan]], rtol=0.05)
    np.testing.assert_allclose(peak(found, "proxy_share"), [[1, 1, np.nan]])
    np.testing.assert_allclose(peak(found, "ratio"), [[[2 / 3, 2, np.nan]]] * 2, rtol=0.05)
    assert found["ratio"].dims == ("replica", "proxy", "named", "stage")


def test_a_numbered_chain_has_the_kept_tokens_in_their_order(tmp_path, run_analyzer):
    """All others, its last token and the most frequent one, are no token of the text."""
    text = bumps(list("abcd"), {"c": 40, "a": 160, "d": 80})
    others_first = {"2": 20, "0": 80, "1": 60}
    chain = laid(tmp_path / "chain", bumps(list("012"), others_first))
    found = run_analyzer("proxy", text, run=chain, tokens=2)
    np.testing.assert_allclose(peak(found, "proxy_step"), [[np.nan, 80, np.nan]], rtol=0.05)
    three = laid(tmp_path / "four", bumps(list("0123"), {"3": 20, "0": 80, "1": 60, "2": 120}))
    found = run_analyzer("proxy", text, run=three, tokens=3)
    np.testing.assert_allclose(peak(found, "proxy_step"), [[120, 80, np.nan]], rtol=0.05)
    with pytest.raises(RunError, match=r"4 tokens that are only numbered, the chain of the text 3"):
        run_analyzer("proxy", text, run=three, tokens=2)


def test_several_runs_in_one_figure(tmp_path, run_analyzer, draw_analyzer, words):
    text = bumps(["the", "of", "<unk>"], {"the": 40, "of": 160, "<unk>": 0})
    runs = {
        "bigram": laid(tmp_path / "a", bumps(["the", "of", "<unk>"], {"the": 80, "of": 80, "<unk>": 0})),
        "unigram": laid(tmp_path / "b", bumps(["the", "of", "<unk>"], {"the": 0, "of": 40, "<unk>": 60})),
    }
    found = run_analyzer("proxy", text, runs=runs)
    assert found["proxy"].values.tolist() == list(runs)
    np.testing.assert_allclose(peak(found, "proxy_step"), [[80, 80, np.nan], [np.nan, 40, 60]], rtol=0.05)
    np.testing.assert_allclose(peak(found, "proxy_share"), [[1, 1, 0], [0, 1, 1]])
    shown = words(draw_analyzer("proxy", text, found))
    assert {"bigram", "unigram", "no rise", "the", "<unk>"} <= set(shown)


def test_the_shapes_of_runs_are_explained_where_there_are_runs(draw_analyzer, words):
    text = bumps(["the", "of"], {"the": 40, "of": 160})
    figure = draw_analyzer("proxy", text)
    repeats, stages = ([t.get_text() for t in ax.get_legend().texts] for ax in figure.axes)
    assert repeats == ["text", "sticky chain"]
    assert stages == ["rise onset", "peak", "fall onset", "fall end"]
    assert all(label.get_rotation() == 0 for ax in figure.axes for label in ax.get_yticklabels())
    assert words(figure).count("the") == 2


def test_runs_that_say_nothing_of_the_text(tmp_path, run_analyzer):
    peaks = {"a": 40, "b": 80}
    text = bumps(list("abc"), peaks, texts='{"x": "1"}', simulation_sha256="s")
    cases = {
        "same simulation": bumps(list("abc"), peaks, simulation_sha256="s"),
        "trained on another text": bumps(list("abc"), peaks, texts='{"y": "2"}', simulation_sha256="t"),
        "has no token of the text": bumps(list("xyz"), {"x": 40}),
        "names none of the tokens a, b": bumps(list("abc"), {"c": 40}),
        "no record of the probe token_classes": xr.DataTree(bumps(list("abc"), peaks).dataset),
    }
    for number, (said, tree) in enumerate(cases.items()):
        with pytest.raises(RunError, match=f"run{number}: .*{said}"):
            run_analyzer("proxy", text, run=laid(tmp_path / f"run{number}", tree))
    again = bumps(list("abc"), peaks, texts='{"elsewhere": "1"}', simulation_sha256="t")
    assert same_tokens(text, again, []) == {"a": "a", "b": "b", "c": "c"}


def test_runs_are_looked_for_beside_the_spec_before_anything_is_run(tmp_path):
    (tmp_path / "specs").mkdir()
    file = tmp_path / "specs" / "text.yaml"
    file.write_text(SPEC.format(lam=0) + "analyzers:\n  - {kind: proxy, run: ../chain}\n")
    spec = load_spec(file)
    assert spec.analyzers[0].run == str(tmp_path / "chain")
    out = tmp_path / "out"
    with pytest.raises(SpecError, match=r"text\.yaml:11:24: analyzers\[0\]\.run: .*not a run's directory"):
        attndyn.run(spec, out)
    assert not out.exists()
    laid(tmp_path / "chain", bumps(list("01234"), {"0": 40}))
    done = attndyn.run(spec, out)
    assert done.analyze()["proxy"]["proxy"].values.tolist() == ["synthetic"]
    done.close()
    several = load_spec(file, ["analyzers=[{kind: proxy, runs: {bigram: nowhere}}]"])
    options = several.analyzers[0]
    (flaw,) = registry.get("analyzer", "proxy")(options).check()
    assert flaw.path == ("runs", "bigram")
    with pytest.raises(SpecError, match="give run or runs, not both"):
        load_spec(file, ["analyzers.0.runs={bigram: nowhere}"])
    with pytest.raises(SpecError, match=r"runs.text: the run on the text itself is called so"):
        load_spec(file, ["analyzers=[{kind: proxy, runs: {text: ../chain}}]"])
