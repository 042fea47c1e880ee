"""Sampled chains: the right law, against the exact one; both samplers of a sticky chain."""

import numpy as np
import pytest
from scipy import stats

from attndyn.data import philox
from attndyn.data.chain import General, Sticky, token_dtype

N_CTX, N_CONTEXTS = 33, 4000


def geometric(d_vocab, ratio=0.6):
    pi = ratio ** np.arange(d_vocab)
    return pi / pi.sum()


def draw(chain, step=0):
    uniform = philox.uniform(11, philox.Purpose.CONTEXTS, step, (N_CTX, N_CONTEXTS))
    return chain.tokens(uniform)


def chains():
    for d_vocab in (2, 5, 30):  # 30: beyond the limit up to which thresholds are compared one by one
        pi, lam = geometric(d_vocab, 0.6 if d_vocab < 30 else 0.9), 0.4
        transition = lam * np.eye(d_vocab) + (1 - lam) * pi
        yield pytest.param(Sticky(pi, lam), pi, transition, id=f"sticky-{d_vocab}")
        yield pytest.param(General(pi, transition), pi, transition, id=f"general-{d_vocab}")
    matrix = np.random.default_rng(0).dirichlet(np.ones(6), size=6)
    pi = np.linalg.matrix_power(matrix, 200)[0]
    yield pytest.param(General(pi, matrix), pi, matrix, id="general-random")


@pytest.mark.parametrize(("chain", "pi", "transition"), list(chains()))
def test_law(chain, pi, transition):
    tokens = draw(chain).astype(int)
    assert tokens.max() < len(pi)
    for position in (0, N_CTX - 1):  # stationary from the first position to the last
        observed = np.bincount(tokens[position], minlength=len(pi))
        assert stats.chisquare(observed, N_CONTEXTS * pi).pvalue > 1e-4
    pairs = np.zeros(transition.shape)
    np.add.at(pairs, (tokens[:-1].ravel(), tokens[1:].ravel()), 1)
    for row, law in zip(pairs, transition, strict=True):
        assert stats.chisquare(row, row.sum() * law).pvalue > 1e-5


@pytest.mark.parametrize(("chain", "pi", "transition"), list(chains()))
def test_memory_is_of_first_order(chain, pi, transition):
    """Given the token between, the next does not depend on the one before: checked on the commonest token."""
    tokens = draw(chain, step=1).astype(int)
    middle = tokens[1:-1] == 0
    before, after = tokens[:-2][middle], tokens[2:][middle]
    table = np.zeros((2, 2))
    np.add.at(table, ((before == 0).astype(int), (after == 0).astype(int)), 1)
    assert stats.chi2_contingency(table).pvalue > 1e-4


def test_the_wrong_law_is_seen():
    pi = geometric(5)
    tokens = draw(Sticky(pi, 0.4)).astype(int)
    observed = np.bincount(tokens[0], minlength=5)
    assert stats.chisquare(observed, N_CONTEXTS * geometric(5, 0.65)).pvalue < 1e-4


@pytest.mark.parametrize("d_vocab", [4, 30])
def test_what_has_no_probability_is_never_drawn(d_vocab):
    """Not for the smallest number, nor for the largest."""
    pi = np.full(d_vocab, 1 / d_vocab)
    transition = np.zeros((d_vocab, d_vocab))
    transition[:, 1:3] = 0.5  # neither the first token nor the last
    for number in (0, 2**31 - 1):
        tokens = General(pi, transition).tokens(np.full((6, 2), number, np.uint32))
        assert set(np.unique(tokens[1:])) <= {1, 2}
    never = Sticky(pi, 0.0).tokens(np.full((2, 1), 0, np.uint32))
    assert never.tolist() == [[0], [0]]


def test_a_chain_that_never_moves_and_one_token():
    assert set(np.unique(draw(General(np.ones(1), np.ones((1, 1)))))) == {0}
    still = draw(General(np.array([0.5, 0.5]), np.eye(2)))
    assert (still == still[0]).all()
    independent = draw(Sticky(geometric(3), 0.0))
    assert not (independent == independent[0]).all()


def test_token_dtype():
    assert [token_dtype(n) for n in (1, 256, 257, 70_000)] == [np.uint8, np.uint8, np.uint16, np.uint32]
