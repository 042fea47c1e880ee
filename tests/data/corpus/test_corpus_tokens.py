"""Tokens: what each tokenizer makes of a text, which pieces are in the vocabulary and in what order."""

import json
import sys
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

from attndyn.data.corpus import blocks
from attndyn.data.corpus import text as text_
from attndyn.data.corpus.options import CorpusOptions
from attndyn.data.corpus.vocabulary import label
from attndyn.errors import UnusableOption


def read(text, tokenizer, **options):
    given = {"kind": "corpus", "source": {"kind": "text", "text": text}, "tokenizer": tokenizer, "n_ctx": 1}
    return text_.read(CorpusOptions.model_validate(given | options))


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


def test_letters_go_with_their_marks():
    """Vowels of Hindi, decomposed accents, joiners of Persian; a mark by itself is a sign."""
    said = "हिन्दी भाषा cafe\u0301s می\u200cخواهم a\u0301 x\u0300y \u0301"
    assert words(said) == [label(word) for word in said.split()]
    assert words("İstanbul ISTANBUL ΟΔΟΣ, οδος", case="fold") == [
        "i\u0307stanbul",
        "istanbul",
        "οδος",
        ",",
        "οδος",
    ]


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


def test_files_that_cannot_encode_the_text(tmp_path, optional):
    library, file = optional("tokenizers"), tmp_path / "tokenizer.json"
    models = library.models
    for model, said in (
        (models.WordLevel({"a": 0}, unk_token="<unk>"), "cannot encode the text: WordLevel error"),
        (models.Unigram([("a", 0.0)]), "cannot encode the text: "),
        (models.BPE({}, []), "makes no token of the text"),
    ):
        library.Tokenizer(model).save(str(file))
        error = refused("b c", {"kind": "file", "file": str(file)})
        assert error.path == ("tokenizer", "file")
        assert said in error.message
        assert "\n" not in error.message


def test_large_numbers_of_the_library(tmp_path, optional):
    library, file = optional("tokenizers"), tmp_path / "tokenizer.json"
    made = library.Tokenizer(library.models.WordLevel({"a": 0, "b": 1}, unk_token="b"))
    made.pre_tokenizer = library.pre_tokenizers.Whitespace()
    content = json.loads(made.to_str())
    content["model"]["vocab"] = {"a": 2**31 + 7, "b": 2**32 - 1}
    file.write_text(json.dumps(content))
    found = read("a b a a b", {"kind": "file", "file": str(file)})
    assert [found.labels[t] for t in found.tokens] == list("abaab")


def test_no_file_of_the_library(tmp_path, optional):
    optional("tokenizers")
    error = refused("a b", {"kind": "file", "file": str(tmp_path / "none.json")})
    assert (error.path, "no such file" in error.message) == (("tokenizer", "file"), True)
    error = refused("a b", {"kind": "file", "file": str(tmp_path)})
    assert (error.path, "is a folder" in error.message) == (("tokenizer", "file"), True)
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
    for taken in ("<rest>", "<others>", "[high]", "[medium]", "[low]"):
        assert label(taken) == f"{taken}_"
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


def test_documents_too_short_are_left_out_before_anything_is_counted():
    text = "a b c d END z z z END b c d a END q q"
    found = read(text, {"kind": "word"}, documents="END", n_ctx=3)
    assert found.labels == ["a", "b", "c", "d"]
    assert found.count.tolist() == [2, 2, 2, 2]
    assert found.ends.tolist() == [4, 8]
    assert found.pairs.sum() == 6
    assert found.short == (2, 5)
    assert read(text, {"kind": "word"}, documents="END", n_ctx=1).short == (0, 0)
    with pytest.raises(UnusableOption, match="are 6 tokens; the longest document has 4"):
        read(text, {"kind": "word"}, documents="END", n_ctx=5)


def test_documents_that_get_too_short_by_dropping_words():
    text = "a b a b END a x y z END b a b a END x a w v"
    found = read(text, {"kind": "word", "size": 2, "unknown": "drop"}, documents="END", n_ctx=3)
    assert [found.labels[t] for t in found.train] == list("ababbaba")
    assert (found.ends.tolist(), found.short) == ([4, 8], (2, 2))
    held = read(text, {"kind": "word", "size": 2, "unknown": "drop"}, documents="END", n_ctx=3, held_out=0.25)
    assert [held.labels[t] for t in held.train] == list("ababbaba")
    assert [held.labels[t] for t in held.held_out] == ["a"]
    assert held.count.tolist() == [4, 4]


def test_documents_that_get_long_enough_by_spelling():
    text = "ab ab ab ab END xyz ab END x"
    found = read(text, {"kind": "word", "size": 2, "unknown": "split"}, documents="END", n_ctx=3)
    assert [found.labels[t] for t in found.train] == ["ab"] * 4 + ["x", "y", "z", "ab"]
    assert found.short == (1, 1)


def test_the_cut_leaves_no_head_too_short_to_train_on():
    """What is too little to train on goes with what is held out, and is not counted."""
    text = "a b c d e END b c d e f END z a b c d e"
    found = read(text, {"kind": "word"}, documents="END", n_ctx=3, held_out=0.3)  # 4 of 16
    assert [found.labels[t] for t in found.held_out] == ["<unk>", "a", "b", "c", "d", "e"]
    assert found.count.sum() == 10


def test_a_separator_that_is_nowhere():
    error = refused("a b c a", {"kind": "word"}, documents="END")
    assert (error.path, "is nowhere in the text;" in error.message) == (("documents",), True)
    error = refused("a\r\n\r\nb c a", {"kind": "word"}, documents="\r\n\r\n")
    assert "of CR LF and CR, LF is read" in error.message


def test_a_held_out_part_too_small_or_too_large():
    error = refused("a b " * 5, {"kind": "word"}, held_out=0.05)
    assert error.path == ("held_out",)
    assert error.message == "found 0.05, which holds out none of the 10 tokens"
    error = refused("a b " * 500, {"kind": "word"}, held_out=0.9999, n_ctx=4)
    assert error.path == ("held_out",)
    assert error.message.startswith("found 0.9999, which leaves 1 of 1000 tokens to train on")
    assert refused("a b c", {"kind": "word"}, held_out=0.5, n_ctx=4).path == ("n_ctx",)


def test_blocks_do_not_matter(monkeypatch):
    """Counting, dropping and spelling go block by block."""
    rng = np.random.default_rng(1)
    text = " ".join(
        rng.choice(["ab", "c", "de", "fgh", "i", "END"], p=[0.3, 0.3, 0.2, 0.05, 0.05, 0.1], size=400)
    )
    options = {"documents": "END", "held_out": 0.2, "n_ctx": 4}
    for unknown in ("token", "drop", "split"):
        tokenizer = {"kind": "word", "size": 3, "unknown": unknown}
        monkeypatch.setattr(blocks, "_BLOCK", 2**20)
        whole = read(text, tokenizer, **options)
        for size in (1, 7, 64):
            monkeypatch.setattr(blocks, "_BLOCK", size)
            found = read(text, tokenizer, **options)
            for name in ("tokens", "labels", "ends", "held_out_ends", "count", "short"):
                assert np.array_equal(getattr(found, name), getattr(whole, name)), (unknown, size, name)
        assert np.array_equal(whole.count, np.bincount(whole.train, minlength=len(whole.labels)))
        assert np.diff(whole.ends, prepend=0).min() >= 5


def test_memory_that_a_token_takes(tmp_path):
    """Two copies of a byte; the difference of two texts leaves out what a block takes."""

    def peak(n):
        (tmp_path / "a.txt").write_bytes(b"ab c" * (n // 4))
        source = {"kind": "path", "files": [str(tmp_path / "a.txt")]}
        options = CorpusOptions.model_validate(
            {"kind": "corpus", "source": source, "tokenizer": {"kind": "byte"}}
        )
        tracemalloc.start()
        try:
            assert text_.read(options).pairs.sum() == n - 1
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert (peak(2**24) - peak(2**23)) / 2**23 < 2.5


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
