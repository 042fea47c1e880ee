"""Contexts of a text: windows of one document, a pure function of seed and step; nothing that is held out."""

import numpy as np
import pytest

from attndyn.data.corpus.options import CorpusOptions
from attndyn.data.corpus.source import CorpusData
from attndyn.data.corpus.windows import Draws, Windows
from attndyn.errors import UnusableOption

LETTERS = "abcdefghijklmnopqrst"
N_CTX = 4


def source(text=LETTERS * 3, seeds=(3, 4, 3), positions="all", **options):
    """Characters, whose tokens are put back into letters by `words`."""
    given = {"kind": "corpus", "source": {"kind": "text", "text": text}, "tokenizer": {"kind": "char"}}
    valid = CorpusOptions.model_validate({**given, "n_ctx": N_CTX, "batch": 5, **options})
    return CorpusData([valid] * len(seeds), seeds, positions)


def words(data, tokens):
    """Tokens `(n, B)` as strings, one a context."""
    return ["".join(data.tokens[t] for t in column) for column in tokens.T]


def of_replica(data, contexts, replica=0):
    """Every context with the token after it."""
    last = contexts.targets[replica, -1:]
    return words(data, np.concatenate([contexts.keys[replica], last]))


@pytest.mark.parametrize("windows", ["random", "shuffled", "sequential"])
def test_contexts_are_stretches_of_the_text(windows):
    data = source(windows=windows)
    contexts = data.batch(7, "positions")
    assert contexts.keys.shape == (3, N_CTX, 5)
    assert all(text in LETTERS * 3 and len(text) == N_CTX + 1 for text in of_replica(data, contexts))
    assert np.array_equal(contexts.query, contexts.keys)
    assert np.array_equal(contexts.targets[:, :-1], contexts.keys[:, 1:])
    last = source(windows=windows, positions="last").batch(7, "positions")
    assert np.array_equal(last.query, contexts.keys[:, -1:])
    assert np.array_equal(last.targets, contexts.targets[:, -1:])


def test_seeds_and_steps_tell_contexts_apart():
    data = source(batch=50)
    step, other = data.batch(1, "positions"), data.batch(2, "positions")
    assert np.array_equal(step.keys[0], step.keys[2])  # seeds 3, 4, 3
    assert not np.array_equal(step.keys[0], step.keys[1])
    assert not np.array_equal(step.keys, other.keys)
    assert np.array_equal(source(batch=50, seeds=(4,)).batch(1, "positions").keys[0], step.keys[1])


def test_every_window_is_drawn_and_as_often():
    windows = Windows(np.array([7, 9, 20]), N_CTX, overlapping=True)
    assert windows.count == 3 + 0 + 7
    drawn = Draws(windows, "random", 20_000).starts(0, 0)
    found, times = np.unique(drawn, return_counts=True)
    assert found.tolist() == [0, 1, 2, 9, 10, 11, 12, 13, 14, 15]
    # 20 000 draws of 10: the count's standard deviation is 42
    assert np.abs(times - 2000).max() < 5 * 42


@pytest.mark.parametrize("lengths", [(5,), (4, 5, 1, 13), (20, 3), (9, 9)])
def test_windows_stay_inside_their_documents(lengths):
    ends = np.cumsum(lengths)
    for overlapping in (True, False):
        windows = Windows(ends, N_CTX, overlapping)
        starts = windows.starts(np.arange(windows.count))
        expected = [
            start
            for begin, end in zip([0, *ends], ends, strict=False)
            for start in range(begin, end - N_CTX, 1 if overlapping else N_CTX)
        ]
        assert starts.tolist() == expected


def test_in_order_goes_through_the_text_again_and_again():
    data = source(windows="sequential", batch=4)
    seen = [text for step in range(7) for text in of_replica(data, data.batch(step, "positions"))]
    whole = LETTERS * 3
    expected = [whole[i : i + N_CTX + 1] for i in range(0, len(whole) - N_CTX, N_CTX)]
    assert seen == (expected * 2)[: len(seen)]
    assert len(seen) == 2 * len(expected)


def test_shuffled_epochs_are_whole_and_differ():
    data = source(windows="shuffled", batch=5)
    n = 14  # windows side by side in 60 letters
    seen = [tuple(c) for step in range(n) for c in data.batch(step, "positions").keys[0].T]
    epochs = [seen[n * e : n * (e + 1)] for e in range(5)]
    assert all(sorted(epoch) == sorted(epochs[0]) for epoch in epochs)
    assert epochs[0] != epochs[1]
    again = source(windows="shuffled", batch=5).batch(9, "positions")
    assert np.array_equal(again.keys, data.batch(9, "positions").keys)


def test_a_batch_larger_than_the_text():
    data = source("ab" * 5, windows="shuffled", batch=40)
    assert data.batch(3, "positions").keys.shape == (3, N_CTX, 40)
    assert source("ab" * 5, windows="sequential", batch=40).batch(2**62, "positions").keys.shape[2] == 40
    assert data.batch(2**62, "positions").keys.shape[2] == 40


def test_documents_are_not_crossed():
    data = source("abcdef|ghijklm|nop", documents="|", batch=200)
    found = set(of_replica(data, data.batch(0, "positions")))
    assert found == {"abcde", "bcdef", "ghijk", "hijkl", "ijklm"}


def test_what_is_held_out_is_never_drawn():
    text = "abcdefghij" * 4 + "uvwxyz" * 4
    data = source(text, held_out=24 / 64, batch=500)
    assert "<unk>" in data.tokens
    trained = "".join(of_replica(data, data.batch(0, "positions")))
    assert "<" not in trained
    assert set(trained) == set("abcdefghij")
    held = data.held_out(3)
    assert held.keys.shape == (3, N_CTX, 3)
    assert {data.tokens[t] for t in held.keys.ravel()} == {"<unk>"}
    assert np.array_equal(held.keys[0], held.keys[1])
    assert data.held_out(100).keys.shape[2] == 5  # (24 - 1) // 4
    assert source(text).held_out(3) is None


def test_too_short():
    for text, said in (("abcd", "the text has 4"), ("abcd" + "e", None)):
        if said is None:
            assert source(text).batch(0, "positions").keys.shape == (3, N_CTX, 5)
            continue
        with pytest.raises(UnusableOption, match=said) as caught:
            source(text)
        assert caught.value.path == ("n_ctx",)
        assert "are 5 tokens" in caught.value.message
    with pytest.raises(UnusableOption, match="the longest document has 3"):
        source("abc|de|f", documents="|")


def test_a_large_vocabulary_has_no_dense_chain(monkeypatch):
    monkeypatch.setattr("attndyn.data.corpus.source.MAX_DENSE", 10)
    assert source().transition is None
    assert source("abcabcabc").transition.shape == (3, 3, 3)


# -- what probes look at ----------------------------------------------------------------------------------


@pytest.mark.parametrize("windows", ["random", "shuffled", "sequential"])
def test_probes_look_at_the_same_windows_for_all_replicas(windows):
    text = "".join(chr(0x4E00 + i) for i in range(401))  # every place has a letter of its own
    data = source(text, windows=windows, held_out=0.0)
    contexts = data.probe_contexts(20)  # a batch has 5
    assert contexts.keys.shape == (3, N_CTX, 20)
    assert (contexts.keys == contexts.keys[:1]).all()
    found = [text.index(window) for window in of_replica(data, contexts)]
    assert found[0] == 0
    assert found[-1] == 396
    assert set(np.diff(found)) <= {20, 24}  # evenly, in whole windows
    again = source(text, windows=windows, seeds=(9,)).probe_contexts(20)
    np.testing.assert_array_equal(again.keys[0], contexts.keys[0])


def test_probes_look_at_all_of_a_short_text_and_at_nothing_held_out():
    text = LETTERS * 3
    data = source(text, held_out=0.4)
    found = of_replica(data, data.probe_contexts(1000))
    assert found == [text[i : i + N_CTX + 1] for i in range(0, 32, N_CTX)]
    assert of_replica(data, data.probe_contexts(1)) == [text[: N_CTX + 1]]


def test_probes_look_into_documents_only():
    data = source("abcdefg|hijkl|mno|pqrstuvwxyz", documents="|")
    assert of_replica(data, data.probe_contexts(9)) == ["abcde", "hijkl", "pqrst", "tuvwx"]
