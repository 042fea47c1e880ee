"""Surrogates of a text: what they keep to the last count, what they destroy; all orders are as likely."""

from collections import Counter

import numpy as np
import pytest

from attndyn.data.corpus.options import CorpusOptions
from attndyn.data.corpus.source import CorpusData
from attndyn.data.corpus.surrogate import surrogate

TEXT = np.array([0, 1, 0, 2, 1, 0, 0, 1, 2, 0], np.uint16)


def pairs(tokens):
    return Counter(zip(tokens[:-1].tolist(), tokens[1:].tolist(), strict=True))


def walks(tokens):
    """Every order that begins as the text does and has its pairs, by brute force."""

    def go_on(begun, left):
        if not +left:
            yield tuple(begun)
        for pair in +left:
            if pair[0] == begun[-1]:
                yield from go_on([*begun, pair[1]], left - Counter([pair]))

    return set(go_on([int(tokens[0])], pairs(tokens)))


@pytest.mark.parametrize("d_vocab", [2, 7, 300])
def test_what_a_surrogate_keeps(d_vocab):
    text = (np.random.default_rng(d_vocab).random(2000) ** 2 * d_vocab).astype(np.uint16)
    single, pairwise = surrogate(text, "unigram"), surrogate(text, "bigram")
    for found in (single, pairwise):
        assert found.dtype == text.dtype
        assert np.array_equal(np.sort(found), np.sort(text))
        assert not np.array_equal(found, text)
    assert pairs(pairwise) == pairs(text) != pairs(single)
    assert (pairwise[0], pairwise[-1]) == (text[0], text[-1])


def test_every_walk_is_as_likely():
    """Chi-square over all walks of a small text, drawn 4000 times; a tree of first exits would fail it."""
    every = walks(TEXT)
    drawn = Counter(tuple(surrogate(TEXT, "bigram", seed).tolist()) for seed in range(4000))
    assert set(drawn) == every
    expected = 4000 / len(every)
    chi = sum((count - expected) ** 2 / expected for count in drawn.values())
    free = len(every) - 1
    assert abs(chi - free) < 4 * np.sqrt(2 * free)


def test_it_depends_on_text_and_seed_only():
    for order in ("unigram", "bigram"):
        again = [surrogate(TEXT, order, seed).tolist() for seed in (0, 0, 1)]
        assert again[0] == again[1] != again[2]


def test_memory_beyond_the_last_token_is_gone():
    """Where a token repeats the last but one, the surrogate of order 1 does so as often as chance."""
    rng, n = np.random.default_rng(0), 30_000
    text = np.empty(n, np.uint16)
    text[:2] = 0, 1
    for place in range(2, n):
        text[place] = text[place - 2] if rng.random() < 0.5 else rng.integers(4)

    def repeats(tokens):
        return np.mean(tokens[2:] == tokens[:-2])

    assert repeats(text) == pytest.approx(0.5 + 0.5 / 4, abs=0.02)
    assert repeats(surrogate(text, "bigram")) == pytest.approx(1 / 4, abs=0.02)


def test_a_run_trains_on_it_and_keeps_what_is_held_out():
    text = "abcdefghijklmnopqrst" * 2 + "abcab" * 2  # the last fifth is held out

    def source(order):
        return CorpusData(
            [
                CorpusOptions.model_validate(
                    {
                        "kind": "corpus",
                        "source": {"kind": "text", "text": text},
                        "tokenizer": {"kind": "char"},
                        "n_ctx": 4,
                        "batch": 5,
                        "held_out": 0.2,
                        "surrogate": order,
                    }
                )
            ],
            (0,),
            "all",
        )

    def contexts(data):
        keys = data.batch(0, "positions").keys[0]
        return ["".join(data.tokens[token] for token in column) for column in keys.T]

    whole, single, pairwise = source(None), source("unigram"), source("bigram")
    assert all(part in text for part in contexts(whole))
    assert not all(part in text for part in contexts(single))
    for found in (single, pairwise):
        assert np.array_equal(whole.count, found.count)
        assert np.array_equal(whole.held_out(3).keys, found.held_out(3).keys)
    assert (pairwise.pairs != whole.pairs).nnz == 0 < (single.pairs != whole.pairs).nnz
