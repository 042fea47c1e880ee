"""Texts: files of every form give the same characters; what cannot be read is said in one line."""

import gzip
import os
import sys

import pytest
from pydantic import ValidationError

from attndyn.data.corpus import reading
from attndyn.data.corpus.reading import Reading
from attndyn.data.corpus.sources import HubSource, PathSource, TextSource, not_plain
from attndyn.errors import UnusableOption

TEXT = "a cat – ein Kätzchen\nsaw 猫\n\nthe end\n"
REVISION = "0123456789abcdef0123456789abcdef01234567"


def path_source(*files, **options):
    return PathSource(kind="path", files=[str(file) for file in files], **options)


def text_of(source, separator=None):
    return "".join(text for text, _ in Reading(source).documents(separator))


def refused(source):
    with pytest.raises(UnusableOption) as caught:
        text_of(source)
    return caught.value


def copy_of(file):
    other = file.with_name("copy.txt")
    other.write_bytes(file.read_bytes())
    return other


@pytest.fixture
def plain(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT, "utf-8")
    return tmp_path / "a.txt"


def test_plain_and_gzip(plain, tmp_path):
    packed = tmp_path / "a.txt.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert text_of(path_source(plain)) == text_of(path_source(packed)) == TEXT
    assert text_of(path_source(plain, packed)) == TEXT * 2
    pieces = list(Reading(path_source(plain, packed)).documents(None))
    assert pieces == [(TEXT, True)] * 2  # a file is a document


def test_zstandard_of_several_frames(plain, tmp_path, optional):
    compress = optional("zstandard").ZstdCompressor().compress
    packed = tmp_path / "a.zst"
    packed.write_bytes(compress(plain.read_bytes()) + compress(b"more"))
    assert text_of(path_source(packed)) == TEXT + "more"
    packed.write_bytes(packed.read_bytes()[:-3])
    assert "damaged" in refused(path_source(packed)).message
    packed.write_bytes(b"no zstandard at all")
    assert "damaged" in refused(path_source(packed)).message


def test_parquet(tmp_path, optional):
    file = tmp_path / "a.parquet"
    table = optional("pyarrow").table({"text": ["one\n", None, "two"], "n": [1, 2, 3]})
    optional("pyarrow.parquet").write_table(table, file)
    assert text_of(path_source(file)) == "one\ntwo\n"
    assert "has no column 'story'; it has text, n" in refused(path_source(file, column="story")).message
    assert "the column 'n' holds int64, no text" in refused(path_source(file, column="n")).message
    file.write_bytes(b"PAR1 no more")
    assert "damaged" in refused(path_source(file)).message


def test_columns_of_parquet(tmp_path, optional):
    pa, file = optional("pyarrow"), tmp_path / "a.parquet"

    def write(columns, names):
        optional("pyarrow.parquet").write_table(pa.table(columns, names=names), file)

    for kind in (pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        write([pa.array(["a", "b", "a"]).cast(kind)], ["text"])
        assert text_of(path_source(file)) == "a\nb\na\n"
    for wrong in ([["a"], ["b"]], [{"a": "b"}], [b"a"], [None]):
        write([pa.array(wrong)], ["text"])
        assert "no text" in refused(path_source(file)).message
    write([pa.array(["a"]), pa.array(["b"])], ["text", "text"])
    assert "has the column 'text' 2 times" in refused(path_source(file)).message


def test_bad_bytes_in_parquet(tmp_path, optional):
    """Whatever kind of string holds them; a row after all that is taken is not looked at."""
    pa, file = optional("pyarrow"), tmp_path / "a.parquet"
    raw = pa.array([b"one", None, b"caf\xe9", b"two"])
    buffers = raw.buffers()
    strings = pa.StringArray.from_buffers(4, *buffers[1:], buffers[0], null_count=1)
    wide = pa.array([b"one", None, b"caf\xe9", b"two"], pa.large_binary()).buffers()
    large = pa.LargeStringArray.from_buffers(4, *wide[1:], wide[0], null_count=1)
    views = raw.cast(pa.binary_view()).view(pa.string_view())
    shared = pa.DictionaryArray.from_arrays(pa.array([0, None, 2, 3]), strings.fill_null(""), safe=False)
    for column in (strings, large, views):
        optional("pyarrow.parquet").write_table(pa.table([column], names=["text"]), file)
        error = refused(path_source(file))
        assert error.path == ("files", 0)
        assert f"{file}: not UTF-8: the byte 0xe9 in row 3 of the column 'text'; errors: " in error.message
        assert text_of(path_source(file, errors="replace")) == "one\ncaf\ufffd\ntwo\n"
        assert text_of(path_source(file, characters=4)) == "one\n"
    # of a dictionary the library itself looks whether it is UTF-8
    optional("pyarrow.parquet").write_table(pa.table([shared], names=["text"]), file)
    assert "UTF8" in refused(path_source(file, errors="replace")).message


def test_a_little_zstandard_that_stands_for_much(tmp_path, optional):
    """What is taken at once is bounded, whatever it stands for."""
    packed = tmp_path / "a.zst"
    packed.write_bytes(optional("zstandard").ZstdCompressor(level=19).compress(bytes(2**26)))
    with reading._opened(packed) as file:
        assert 0 < len(file.read(2**20)) < 2**25 + 2**20
    assert len(packed.read_bytes()) > 2 * reading.ZSTANDARD_BYTES


def test_line_breaks_and_byte_order_mark(tmp_path):
    (tmp_path / "w.txt").write_bytes(b"\xef\xbb\xbfa\r\nb\rc\n")
    assert text_of(path_source(tmp_path / "w.txt")) == "a\nb\nc\n"


def test_bad_bytes(tmp_path):
    file = tmp_path / "latin.txt"
    file.write_bytes("fine\nstill fine\ncaf\xe9 au lait".encode("latin-1"))
    error = refused(path_source(file))
    assert error.path == ("files", 0)
    assert "not UTF-8: the byte 0xe9 in line 3" in error.message
    assert text_of(path_source(file, errors="replace")) == "fine\nstill fine\ncaf\ufffd au lait"


def test_no_text(tmp_path):
    missing, folder, binary = tmp_path / "none.txt", tmp_path / "folder", tmp_path / "binary.txt"
    folder.mkdir()
    binary.write_bytes(bytes(range(64)))
    damaged = tmp_path / "damaged.gz"
    damaged.write_bytes(gzip.compress(b"x" * 1000)[:-9])
    for file, said in (
        (missing, "no such file"),
        (folder, "is a folder"),
        (binary, "zero byte"),
        (damaged, "damaged"),
    ):
        error = refused(path_source(__file__, file))
        assert error.path == ("files", 1)
        assert said in error.message
        assert str(file) in error.message
        assert "\n" not in error.message


def test_names_that_are_no_plain_file(tmp_path, monkeypatch):
    loop, pipe = tmp_path / "loop", tmp_path / "pipe"
    loop.symlink_to(loop)
    os.mkfifo(pipe)
    cases = {
        str(loop): "cannot be looked at: Too many levels of symbolic links",
        str(pipe): "is not a plain file",
        "/dev/null": "is not a plain file",
        f"{tmp_path}/{'x' * 300}": "cannot be looked at: File name too long",
        "a\0b": "cannot be looked at: embedded null byte",
        f"{__file__}/x": "cannot be looked at: Not a directory",
    }
    for file, said in cases.items():
        assert said in refused(path_source(file)).message
        assert said in path_source(file).absent()
        assert said in not_plain(file)

    def no_permission(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.stat", no_permission)
    assert not_plain("locked/a.txt") == "cannot be looked at: Permission denied"


def test_only_the_beginning(plain):
    other = copy_of(plain)
    assert text_of(path_source(plain, other, characters=45)) == (TEXT * 2)[:45]
    with pytest.raises(ValidationError):
        path_source(plain, characters=0)


def test_too_much(plain, monkeypatch):
    monkeypatch.setattr(reading, "MAX_CHARACTERS", 50)
    other = copy_of(plain)
    assert "more than 50 characters" in refused(path_source(plain, other)).message
    assert text_of(path_source(plain, other, characters=50)) == (TEXT * 2)[:50]


def test_a_file_twice(plain):
    """Its second SHA-256 would take the place of the first."""
    with pytest.raises(ValidationError, match="is given twice"):
        path_source(plain, copy_of(plain), plain)
    with pytest.raises(ValidationError, match="is given twice"):
        hub_source(file=["a.txt", "a.txt"])


def test_what_is_wrong_beyond_the_beginning_is_not_looked_at(tmp_path):
    file = tmp_path / "a.txt"
    for wrong, said in ((b"\xff", "0xff in line 2"), (b"\0", "zero byte"), (b"\xe7\x8c", "not UTF-8")):
        file.write_bytes("猫 a\r\n\r".encode() + wrong)
        assert text_of(path_source(file, characters=5)) == "猫 a\n\n"
        assert said in refused(path_source(file, characters=6)).message
        assert said in refused(path_source(file)).message


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("separator", [None, "\n\n", "END"])
def test_documents_whatever_the_size_of_blocks(tmp_path, monkeypatch, block, separator):
    monkeypatch.setattr(reading, "BLOCK", block)
    text = (separator or "\n").join(["one two\nthree", "", "four  five six\n", "sevenE ND"])
    (tmp_path / "d.txt").write_text(text)
    found, current = [], ""
    for piece, ends in Reading(path_source(tmp_path / "d.txt")).documents(separator):
        current += piece
        if ends:
            found.append(current)
            current = ""
    assert (found, current) == (text.split(separator) if separator else [text], "")


def test_no_word_is_cut(tmp_path, monkeypatch):
    text = "word " * 50 + "\n" + "word" * 3 + "  " + "word " * 20
    (tmp_path / "w.txt").write_text(text)
    for block in (1, 5, 8, 64):
        monkeypatch.setattr(reading, "BLOCK", block)
        pieces = [piece for piece, _ in Reading(path_source(tmp_path / "w.txt")).documents(None)]
        assert "".join(pieces) == text
        assert [word for piece in pieces for word in piece.split()] == text.split()
        assert len(pieces) > 2


def test_sha256_is_of_the_text(plain, tmp_path):
    (tmp_path / "same.txt.gz").write_bytes(gzip.compress(plain.read_bytes()))

    def digests(*files, **options):
        found = Reading(path_source(*files, **options))
        list(found.documents(None))
        return list(found.sha256.values())

    one, packed = digests(plain, tmp_path / "same.txt.gz")
    assert one == packed
    assert digests(plain, characters=5) != [one]


def test_text_in_the_spec():
    assert text_of(TextSource(kind="text", text="a b")) == "a b"
    assert text_of(TextSource(kind="text", text="a\r\nb\rc")) == "a\nb\nc"


# -- the hub ----------------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path, monkeypatch, optional):
    """A cache laid by hand, and no net."""
    constants = optional("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    folder = tmp_path / "hub" / "datasets--someone--stories" / "snapshots" / REVISION / "data"
    folder.mkdir(parents=True)
    (folder / "train.txt").write_text(TEXT, "utf-8")
    return folder


def hub_source(**changes):
    options = {"repo": "someone/stories", "revision": REVISION, "file": "data/train.txt", **changes}
    return HubSource(kind="hub", **options)


def test_hub_reads_the_cache(cache):
    found = Reading(hub_source())
    assert "".join(text for text, _ in found.documents(None)) == TEXT
    assert list(found.sha256) == [f"someone/stories@{REVISION}/data/train.txt"]


def test_hub_reads_several_files_in_order(cache):
    (cache / "more.txt").write_text("and more\n", "utf-8")
    files = ["data/more.txt", "data/train.txt"]
    found = Reading(hub_source(file=files))
    assert "".join(text for text, _ in found.documents(None)) == "and more\n" + TEXT
    assert list(found.sha256) == [f"someone/stories@{REVISION}/{file}" for file in files]
    alone = Reading(hub_source(file=["data/train.txt"]))
    list(alone.documents(None))
    assert found.sha256 | alone.sha256 == found.sha256


def test_hub_fetches_no_file_of_which_nothing_is_read(cache):
    source = hub_source(file=["data/train.txt", "data/none.txt"], characters=len(TEXT))
    found = Reading(source)
    assert "".join(text for text, _ in found.documents(None)) == TEXT
    assert list(found.sha256) == [f"someone/stories@{REVISION}/data/train.txt"]


def test_hub_not_cached_and_off_line_is_one_line(cache):
    error = refused(hub_source(file="data/other.txt"))
    assert error.path == ("file",)
    assert error.message.startswith(f"someone/stories@{REVISION}/data/other.txt: is not in the cache")
    assert "\n" not in error.message
    assert len(error.message) < 400
    error = refused(hub_source(file=["data/train.txt", "data/other.txt"]))
    assert error.path == ("file", 1)
    assert error.message.startswith(f"someone/stories@{REVISION}/data/other.txt: is not in the cache")


def test_what_this_machine_lacks_is_known_without_reading(plain, tmp_path, cache):
    assert path_source(plain).absent() is None
    assert path_source(plain, tmp_path / "b.txt").absent() == f"{tmp_path / 'b.txt'}: no such file"
    assert hub_source().absent() is None
    assert "is not in the cache" in hub_source(file="data/other.txt").absent()
    both = hub_source(file=["data/train.txt", "data/other.txt"])
    assert both.absent() == f"someone/stories@{REVISION}/data/other.txt: is not in the cache"
    assert TextSource(kind="text", text=TEXT).absent() is None


@pytest.mark.parametrize("error", ["RepositoryNotFoundError", "RevisionNotFoundError", "EntryNotFoundError"])
def test_what_the_hub_does_not_find_is_laid_to_its_key(cache, monkeypatch, optional, error):
    wrong = (
        optional("huggingface_hub.errors")
        .__dict__[error]
        .__new__(optional("huggingface_hub.errors").__dict__[error])
    )

    def not_found(*_, **__):
        raise wrong

    monkeypatch.setattr("huggingface_hub.hf_hub_download", not_found)
    key = {"RepositoryNotFoundError": "repo", "RevisionNotFoundError": "revision"}.get(error, "file")
    assert refused(hub_source(file="data/other.txt")).path == (key,)


def test_looking_into_the_cache_may_fail(cache, monkeypatch):
    def fails(*_, **__):
        raise ValueError("no such\nname")

    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", fails)
    assert hub_source().absent().endswith("cannot be looked up in the cache (no such name)")


def test_hub_needs_a_pinned_revision_and_a_file():
    for wrong in ({"revision": "main"}, {"file": ""}, {"file": []}, {"file": ["a", ""]}, {"file": 3}):
        with pytest.raises(ValidationError):
            hub_source(**wrong)


@pytest.mark.parametrize("package", ["huggingface_hub", "zstandard", "pyarrow"])
def test_a_missing_package_is_one_line(package, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    for name in ("a.zst", "a.parquet"):
        (tmp_path / name).write_bytes(b"x")
    source = {
        "huggingface_hub": hub_source(),
        "zstandard": path_source(tmp_path / "a.zst"),
        "pyarrow": path_source(tmp_path / "a.parquet"),
    }[package]
    assert "pip install 'attndyn[corpora]'" in refused(source).message
    assert package != "huggingface_hub" or "needs the package" in source.absent()
