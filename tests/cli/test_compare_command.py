"""`attndyn compare` as it is typed."""

from pathlib import Path

import pytest

import attndyn
from attndyn.cli import main

FIGURES = ("curves", "retractions")


@pytest.fixture
def typed(monkeypatch, capsys):
    """A function from arguments to the exit code, stdout and stderr of the command line."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["attndyn", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capsys.readouterr()

    return run


def test_the_last_line_is_the_page(typed, small, tmp_path):
    runs = [attndyn.run(small(f"optimizer.lr={lr}"), tmp_path).directory for lr in (0.01, 0.02)]
    code, out, err = typed("compare", *runs, "--out", tmp_path / "page")
    assert (code, err) == (0, "")
    assert Path(out.splitlines()[-1]) == tmp_path / "page" / "compare.html"
    assert {path.stem for path in (tmp_path / "page" / "figures").iterdir()} >= set(FIGURES)
    assert "optimizer.lr" in (tmp_path / "page" / "compare.html").read_text("utf-8")


@pytest.mark.parametrize(("given", "said"), [(["nowhere", "neither"], "nowhere"), ([], "RUN")])
def test_a_mistake_is_a_message(typed, given, said):
    code, _, err = typed("compare", *given)
    assert code == 2
    assert said in err
    assert "Traceback" not in err
