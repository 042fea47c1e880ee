"""The digest of the code that a trajectory is the work of."""

import sys

import pytest

from attndyn import provenance


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package of somebody else's, with a class in it."""
    (tmp_path / "elsewhere").mkdir()
    for name in ("__init__", "model"):
        (tmp_path / "elsewhere" / f"{name}.py").write_text("class Model: ...\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "elsewhere", raising=False)
    return tmp_path / "elsewhere"


def digest(package):
    provenance._digest.cache_clear()
    cls = type("Model", (), {"__module__": "elsewhere.model"})
    return provenance.code_sha256([cls])


def test_code_of_other_packages_counts(package):
    alone = provenance.code_sha256()
    before = digest(package)
    assert before != alone
    assert digest(package) == before
    (package / "model.py").write_text("class Model: other = 1\n", "utf-8")
    changed = digest(package)
    assert changed not in (before, alone)
    (package / "model.py").rename(package / "renamed.py")
    assert digest(package) not in (before, changed, alone)


def test_the_engines_own_classes_add_nothing():
    from attndyn.optim.adam import Adam

    assert provenance.code_sha256([Adam]) == provenance.code_sha256()
