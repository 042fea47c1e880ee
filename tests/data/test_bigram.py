"""What follows a token: estimates against chains that are known, brute force, and text without order."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from attndyn.data.bigram import Counted, Known, bigrams, weight_of_frequencies
from attndyn.data.chain import General
from attndyn.data.corpus.options import CorpusOptions
from attndyn.data.corpus.source import CorpusData
from attndyn.data.markov import MarkovData, MarkovOptions

D = 30


def chain(rng=7):
    """A chain with uneven frequencies that runs in circles: reversed in time it is another one."""
    rng = np.random.default_rng(rng)
    matrix = 0.5 * np.roll(np.eye(D), 1, axis=1) + 0.5 * rng.dirichlet(1 / np.arange(1, D + 1), D)
    pi = np.linalg.matrix_power(matrix, 2000)[0]
    return matrix, pi / pi.sum()


def sample(n):
    matrix, pi = chain()
    uniform = np.random.default_rng(n).integers(0, 2**31, (n, 1), dtype=np.int64).astype(np.uint32)
    return np.asarray(General(pi, matrix).tokens(uniform))[:, 0]


def counted(tokens, d_vocab):
    pairs = csr_array((np.ones(len(tokens) - 1), (tokens[:-1], tokens[1:])), (d_vocab, d_vocab))
    return Counted(pairs, np.bincount(tokens, minlength=d_vocab) / len(tokens))


def rows(bigram, pi):
    return bigram.deviations(np.arange(len(pi))) + pi


def test_a_known_chain_is_what_it_is():
    matrix, pi = chain()
    found = Known(matrix, pi)
    entropy, information, left = found.summary(np.arange(D))
    np.testing.assert_allclose(rows(found, pi), matrix, atol=1e-15)
    np.testing.assert_allclose(entropy, -(matrix * np.log(matrix)).sum(axis=1))
    np.testing.assert_allclose(information, (matrix * np.log(matrix / pi)).sum(axis=1))
    assert (left == 0).all()


def test_text_of_a_known_chain_gives_it_back_the_better_the_longer_it_is():
    matrix, pi = chain()
    true = pi @ Known(matrix, pi).summary(np.arange(D))[1]
    floors, errors = [], []
    for n in (2_000, 20_000, 200_000):
        tokens = sample(n)
        found = counted(tokens, D)
        floors.append(pi @ (matrix * np.log(matrix / rows(found, found._pi))).sum(axis=1))
        errors.append(abs(pi @ found.summary(np.arange(D))[1] - true))
    assert floors[0] < 0.1
    assert floors[1] < floors[0] / 5
    assert floors[2] < floors[1] / 5
    assert floors[2] < 0.002
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.005 * true


def test_shuffled_text_tells_nothing_at_all():
    rng = np.random.default_rng(0)
    share = 1 / np.arange(1, 2001)
    tokens = rng.choice(2000, 60_000, p=share / share.sum())
    found = counted(tokens, 2000)
    occurs = np.unique(tokens)
    assert len(occurs) > 1000
    assert found.alpha == np.inf
    _, information, left = found.summary(occurs)
    assert (information == 0).all()
    assert (left == 1).all()
    assert (found.deviations(occurs) == 0).all()
    # the counts as they are tell more than a nat
    total = np.maximum(found._total, 1)[:, None]
    plain = found._pairs.toarray() / total
    told = (plain * np.log(np.where(plain > 0, plain / found._pi.clip(1e-300), 1))).sum(axis=1)
    assert found._pi @ told > 1


def test_sparse_sums_are_those_of_dense_rows():
    tokens = np.append(sample(500), D)  # the last one has no successor
    found = counted(tokens, D + 1)
    assert 0 < found.alpha < np.inf
    count = found._pairs.toarray()
    dense = (count + found.alpha * found._pi) / (count.sum(axis=1, keepdims=True) + found.alpha)
    np.testing.assert_allclose(dense.sum(axis=1), 1)
    some = np.array([3, D, 0, 3])

    def log(values):
        return np.log(np.where(values > 0, values, 1))

    entropy, information, left = found.summary(some)
    np.testing.assert_allclose(found.deviations(some), dense[some] - found._pi, atol=1e-15)
    np.testing.assert_allclose(entropy, -(dense * log(dense)).sum(axis=1)[some], rtol=1e-12)
    np.testing.assert_allclose(
        information, (dense * (log(dense) - log(found._pi))).sum(axis=1)[some], atol=1e-13
    )
    assert left[1] == 1
    np.testing.assert_allclose(left, (found.alpha / (count.sum(axis=1) + found.alpha))[some])


def test_the_weight_is_of_the_greatest_leave_one_out_likelihood():
    tokens = sample(3000)
    found = counted(tokens, D)
    count, pi = found._pairs.toarray(), found._pi

    def likelihood(alpha):
        """Each pair in its turn is taken out and then predicted from the others."""
        total = 0.0
        for x, y in zip(*np.nonzero(count), strict=True):
            others = count[x].sum() - 1
            total += count[x, y] * np.log((count[x, y] - 1 + alpha * pi[y]) / (others + alpha))
        return total

    assert likelihood(found.alpha) > likelihood(1.02 * found.alpha)
    assert likelihood(found.alpha) > likelihood(found.alpha / 1.02)


def test_a_certain_successor_is_certain():
    tokens = np.tile(np.arange(5), 40)
    entropy, information, _ = counted(tokens, 5).summary(np.arange(5))
    np.testing.assert_allclose(entropy, 0, atol=1e-5)
    np.testing.assert_allclose(information, np.log(5), atol=1e-5)


def test_without_pairs_there_are_the_frequencies():
    assert weight_of_frequencies(csr_array((3, 3)), np.full(3, 1 / 3)) == np.inf


def test_replicas_share_what_is_the_same():
    given = {
        "kind": "markov",
        "stationary": {"kind": "geometric", "d_vocab": 4, "ratio": 0.5},
        "transition": {"kind": "sticky", "lam": 0.2},
    }
    chains = [
        MarkovOptions.model_validate(given | {"transition": {"kind": "sticky", "lam": lam}})
        for lam in (0.2, 0.7, 0.2)
    ]
    found, own = bigrams(MarkovData(chains, [0, 1, 2], "all"))
    assert own.tolist() == [0, 1, 0]
    np.testing.assert_allclose(found[1].deviations(np.arange(4)) + chains[1].pi, chains[1].P)
    text = {"kind": "corpus", "source": {"kind": "text", "text": "abcabdabc"}, "tokenizer": {"kind": "char"}}
    options = CorpusOptions.model_validate(text | {"n_ctx": 2})
    found, own = bigrams(CorpusData([options] * 3, [0, 1, 2], "all"))
    assert (len(found), own.tolist()) == (1, [0, 0, 0])


@pytest.mark.parametrize("documents", [None, "|"])
def test_pairs_are_what_counts_whatever_the_size_of_the_vocabulary(monkeypatch, documents):
    text = {"kind": "corpus", "source": {"kind": "text", "text": "abcdeab|bcdea|eabcd|" * 5}}
    options = CorpusOptions.model_validate(
        text | {"tokenizer": {"kind": "char"}, "documents": documents, "n_ctx": 2}
    )
    found = []
    for most in (1, 512):
        monkeypatch.setattr("attndyn.data.corpus.source.MAX_DENSE", most)
        data = CorpusData([options], [0], "all")
        assert (data.transition is None) == (most == 1)
        found.append(bigrams(data)[0][0].deviations(np.arange(len(data.tokens))))
    np.testing.assert_array_equal(*found)
