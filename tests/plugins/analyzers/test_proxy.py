"""The sticky chain fitted to chains that are sticky, and to some that are not."""

import numpy as np
import pytest

import attndyn
from attndyn.analysis.sticky_fit import fit_sticky, lumped
from attndyn.conformance.example_runs import recorded
from attndyn.errors import RunError
from attndyn.spec import parse_spec

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
    assert found.explained == pytest.approx(1 / 9)
    assert found.missed == pytest.approx(found.information) == pytest.approx(np.log(4))


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


def test_fit_of_a_run(trajectory, run_analyzer, draw_analyzer):
    for tokens in (2, 8):
        found = run_analyzer("proxy", trajectory, tokens=tokens)
        np.testing.assert_allclose(found["repeats"][0, 0], 0.4 + 0.6 * found["chain_pi"][0, 0], rtol=1e-12)
        assert found["kept"].values.tolist()[-1] == ("<rest>" if tokens == 2 else "4")
        if tokens == 8:
            np.testing.assert_allclose(found["lam"], 0.4, rtol=1e-12)
        assert found["fits"].all()
        assert found["proxy_step"].isnull().all()
    draw_analyzer("proxy", trajectory)
    independent = recorded(parse_spec(SPEC.format(lam=0.0)))
    assert not run_analyzer("proxy", independent)["fits"].any()


def test_a_run_beside_itself(tmp_path, run_analyzer, trajectory):
    spec = parse_spec(SPEC.format(lam=0.4), overrides=("training.steps=150", "replicas.seeds=1"))
    run = attndyn.run(spec, tmp_path)
    found = run_analyzer("proxy", run.trajectory, run=str(run.directory))
    ratio = found["ratio"].values
    assert (ratio[np.isfinite(ratio)] == 1).all()
    np.testing.assert_array_equal(found["stage_step"][0], found["proxy_step"])
    with pytest.raises(RunError, match="no such trajectory"):
        run_analyzer("proxy", trajectory, run=str(tmp_path / "none"))
