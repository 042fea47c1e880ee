"""Files that are written whole or not at all."""

import pytest

from attndyn.files import whole


def test_the_new_file_takes_the_place_of_the_old(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with whole(path) as fresh:
        fresh.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def fail():
        with whole(path) as fresh:
            fresh.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
