"""Tokens: what each tokenizer makes of a text, which pieces are in the vocabulary and in what order."""

import json
import sys
from itertools import pairwise

import numpy as np
import pytest

from attndyn.data.corpus import text as text_
from attndyn.data.corpus.options import CorpusOptions
from attndyn.data.corpus.vocabulary import label
from attndyn.errors import UnusableOption


def read(text, tokenizer, **options):
    source = {"kind": "text", "text": text}
    return text_.read(
        CorpusOptions.model_validate({"kind": "corpus", "source": source, "tokenizer": tokenizer, **options})
    )


def words(text, **options):
    found = read(text, {"kind": "word", **options})
    return [found.labels[t] for t in found.tokens]


def refused(*arguments, **options):
    with pytest.raises(UnusableOption) as caught:
        read(*arguments, **options)
    return caught.value


def test_words_and_signs():
    said = words("Don't <unk> stop, 3.5 <|endoftext|> now… a_b -- naïve")
    assert " ".join(said) == "Don't <unk> stop , 3 . 5 <|endoftext|> now … a_b - - naïve"


def test_between_spaces():
    said = words("don 't @-@ stop, <unk>\tnow", split="spaces")
    assert " ".join(said) == "don 't @-@ stop, <unk> now"


def test_case():
    assert words("The the cat", case="keep") == ["The", "the", "cat"]
    assert words("The the cat", case="fold") == ["the", "the", "cat"]


def test_spaces_and_line_breaks():
    text = "a  b\t\n\n c"
    assert words(text, line_breaks=True) == ["a", "b", "<newline>", "<newline>", "c"]
    assert words(text, spaces=True) == ["a", "<space>", "b", "<space>", "<space>", "c"]
    both = words(text, spaces=True, line_breaks=True, split="spaces")
    assert both == ["a", "<space>", "b", "<space>", "<newline>", "<newline>", "<space>", "c"]


def test_the_most_frequent_with_unknown_among_them():
    found = read("a a a a b b b c c d e", {"kind": "word", "size": 3})
    assert found.labels == ["<unk>", "a", "b"]  # of equal counts, by label
    assert found.count.tolist() == [4, 4, 3]
    assert [found.labels[t] for t in found.tokens][-4:] == ["<unk>"] * 4


def test_unknown_words_of_the_text_itself():
    """WikiText has <unk> in it: the same token as what does not fit."""
    found = read("<unk> a a a <unk> b c <unk> <unk>", {"kind": "word", "size": 2})
    assert found.labels == ["<unk>", "a"]
    assert found.count.tolist() == [6, 3]
    assert read("a <unk> a b", {"kind": "word"}).labels == ["a", "<unk>", "b"]


def test_unknown_words_dropped():
    assert words("a a a b b c d a b", size=2, unknown="drop") == list("aaabbab")


def test_unknown_words_spelled():
    said = words("to to to be bet to", size=2, unknown="split")
    assert said == ["to", "to", "to", "be", "b", "e", "t", "to"]
    # a character that is a word already is that word
    assert words("a a a ab b b", size=2, unknown="split") == ["a", "a", "a", "a", "b", "b", "b"]


def test_ties_go_by_label():
    assert read("d c b a", {"kind": "word"}).labels == list("abcd")
    assert read("d c b a", {"kind": "word", "size": 3}).labels == ["<unk>", "a", "b"]


def test_a_vocabulary_larger_than_the_text():
    found = read("a b a", {"kind": "word", "size": 100_000})
    assert found.labels == ["a", "b"]


def test_characters():
    found = read("ab ba\n\u0007é", {"kind": "char"})
    assert set(found.labels) == {"a", "b", "<space>", "<newline>", "<U+0007>", "é"}
    assert len(found.tokens) == 8
    assert set(read("aAbB", {"kind": "char", "case": "fold"}).labels) == {"a", "b"}


def test_characters_that_do_not_fit():
    found = read("aaaabbbcd", {"kind": "char", "size": 3})
    assert found.labels == ["a", "b", "<unk>"]


def test_bytes():
    found = read("né\n n", {"kind": "byte"})
    assert [found.labels[t] for t in found.tokens] == ["n", "<0xC3>", "<0xA9>", "<newline>", "<space>", "n"]


@pytest.fixture
def tokenizer_file(tmp_path, optional):
    """Pairs of letters by a small BPE of the library."""
    library = optional("tokenizers")
    vocabulary = {"a": 0, "b": 1, "ab": 2, "\u010a": 3, "unused": 4}
    made = library.Tokenizer(library.models.BPE(vocab=vocabulary, merges=[("a", "b")]))
    made.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.enable_truncation(2)
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_a_file_of_the_library(tokenizer_file):
    found = read("abba\nab", {"kind": "file", "file": str(tokenizer_file)})
    assert [found.labels[t] for t in found.tokens] == ["ab", "b", "a", "\u010a", "ab"]
    assert str(tokenizer_file) in found.sha256


def test_no_file_of_the_library(tmp_path, optional):
    optional("tokenizers")
    error = refused("a b", {"kind": "file", "file": str(tmp_path / "none.json")})
    assert (error.path, "no such file" in error.message) == (("tokenizer", "file"), True)
    (tmp_path / "other.json").write_text(json.dumps({"a": 1}))
    error = refused("a b", {"kind": "file", "file": str(tmp_path / "other.json")})
    assert "no tokenizer" in error.message
    assert "\n" not in error.message


def test_the_library_missing(tokenizer_file, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    error = refused("a b", {"kind": "file", "file": str(tokenizer_file)})
    assert "pip install 'attndyn[corpora]'" in error.message


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "is empty"), (" \n ", "is empty"), ("a a a a", "is one token repeated, 'a'")],
)
def test_texts_that_teach_nothing(text, said):
    error = refused(text, {"kind": "word"})
    assert said in error.message
    assert error.path == ("source",)


def test_only_the_held_out_part_is_rich():
    error = refused("a a a a a a a a b c", {"kind": "word"}, held_out=0.2)
    assert "outside its held-out part" in error.message


def test_labels():
    long = "x" * 100
    assert len(label(long)) == 64
    assert label(long) != label(long + "y")
    assert label("<rest>") != "<rest>"
    assert label("tab\there") == "tab<U+0009>here"


# -- the parts and the counts -----------------------------------------------------------------------------


def test_the_vocabulary_does_not_see_what_is_held_out():
    found = read("a b a b a b c c c c", {"kind": "word"}, held_out=0.4)
    assert found.labels == ["a", "b", "<unk>"]
    assert found.count.tolist() == [3, 3, 0]
    assert [found.labels[t] for t in found.held_out] == ["<unk>"] * 4


def test_documents_and_pairs():
    found = read("a b . END b a . END a b", {"kind": "word"}, documents="END")
    assert found.ends.tolist() == [3, 6, 8]
    pairs = {
        (found.labels[i], found.labels[j]): int(n)
        for i, j, n in zip(*found.pairs.nonzero(), found.pairs.tocoo().data, strict=True)
    }
    assert pairs == {("a", "b"): 2, ("b", "."): 1, ("b", "a"): 1, ("a", "."): 1}


def test_counts_against_plain_ones():
    rng = np.random.default_rng(0)
    text = " ".join(rng.choice(list("abcde"), p=[0.4, 0.3, 0.15, 0.1, 0.05], size=500))
    found = read(text, {"kind": "word"}, held_out=0.1)
    train = text.split()[:450]
    assert found.labels == sorted(set(train), key=lambda w: (-train.count(w), w))
    assert found.count.tolist() == [train.count(w) for w in found.labels]
    for i, first in enumerate(found.labels):
        for j, second in enumerate(found.labels):
            expected = sum(pair == (first, second) for pair in pairwise(train))
            assert found.pairs[i, j] == expected


def test_the_frequencies_are_stationary():
    found = read("a b c a b a END c c b a END b c", {"kind": "word"}, documents="END", held_out=0.1)
    matrix, pi = found.chain(), found.count / found.count.sum()
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(pi @ matrix, pi, rtol=1e-14)


def test_pairs_are_counted_in_parts(monkeypatch):
    found = read("a b c a b a c c b a b c", {"kind": "word"})
    whole = found.pairs.toarray()
    monkeypatch.setattr(text_, "_PAIRS", 3)
    again = read("a b c a b a c c b a b c", {"kind": "word"})
    assert np.array_equal(again.pairs.toarray(), whole)
    assert whole.sum() == 11


def test_dropping_and_splitting_keep_documents_and_the_split():
    text = "a a rare b END a rare rare b b END a b rare a b"
    dropped = read(text, {"kind": "word", "size": 2, "unknown": "drop"}, documents="END", held_out=0.2)
    assert [dropped.labels[t] for t in dropped.train] == list("aababbab")
    assert dropped.ends.tolist() == [3, 6, 8]
    assert [dropped.labels[t] for t in dropped.held_out] == ["a", "b"]
    spelled = read(text, {"kind": "word", "size": 2, "unknown": "split"}, documents="END", held_out=0.2)
    assert "".join(spelled.labels[t] for t in spelled.train) == "aarareb" + "ararerarebb" + "abrare"
    assert spelled.ends.tolist() == [7, 18, 24]
