"""Every spec that ships passes the suite `core`."""

from pathlib import Path

import pytest

from attndyn.conformance import check_spec
from attndyn.spec import load_spec

SPECS = Path(__file__).parents[2] / "specs"
SHIPPED = [path for path in sorted(SPECS.rglob("*.yaml")) if path.name != "ledger.yaml"]
# their texts are not in the repository, nor are there their words in this one
WORDS = " ".join(f"w{(7 * i * i + i // 3) % 41}" for i in range(900))
WITHOUT_FILES = [
    f"data.source={{kind: text, text: {WORDS}}}",
    "data.tokenizer.size=30",
    "data.documents=null",
]
WITHOUT_FILES += ["probes.token_classes.tokens=null"]
# of predictions that are all alike, or of which there are few, nothing can be told
WITHOUT_FILES += ["probes.predictions.repeats=2", "model.init.std=0.3"]


def test_there_are_specs():
    assert SHIPPED


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.relative_to(SPECS).as_posix())
def test_conforms(path):
    report = check_spec(load_spec(path, WITHOUT_FILES if path.parent.name == "corpora" else ()))
    assert report.passed, str(report)
    assert all(result.n_cases == 1 for result in report.results)
