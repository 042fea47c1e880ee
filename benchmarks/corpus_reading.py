"""Reading 10 MB of text: seconds, and the most memory that a process needs for it, by tokenizer.

    python benchmarks/corpus_reading.py TEXT...

The files given are repeated until there are 10 MB. Each tokenizer has a process of its own; vocabulary,
counts and pairs of successive tokens are made as for a run.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZE = 10_000_000
TOKENIZERS = {
    "words": {"kind": "word"},
    "words, spaces and line breaks": {"kind": "word", "spaces": True, "line_breaks": True},
    "words, others in characters": {"kind": "word", "unknown": "split"},
    "characters": {"kind": "char"},
    "bytes": {"kind": "byte"},
}


def peak() -> float:
    """Most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(file: str, tokenizer: dict[str, object]) -> None:
    """Print number of tokens, seconds, and peak memory before and after."""
    from attndyn.data.corpus.options import CorpusOptions
    from attndyn.data.corpus.text import read

    source = {"kind": "path", "files": [file]}
    options = CorpusOptions.model_validate({"kind": "corpus", "source": source, "tokenizer": tokenizer})
    before, begun = peak(), time.perf_counter()
    text = read(options)
    pairs = text.pairs.sum()
    seconds = time.perf_counter() - begun
    print(f"{pairs + 1:10d} tokens {seconds:6.2f} s {peak():6.0f} MB, {before:.0f} of them before")


def main(files: list[str]) -> None:
    if not files:
        raise SystemExit(__doc__)
    some = "\n".join(Path(file).read_text(encoding="utf-8") for file in files)
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        text.write_bytes((some * (SIZE // len(some) + 1)).encode()[:SIZE].decode(errors="ignore").encode())
        for name, tokenizer in TOKENIZERS.items():
            print(f"{name:32}", end="", flush=True)
            command = [sys.executable, __file__, "--one", str(text), json.dumps(tokenizer)]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        measure(sys.argv[2], json.loads(sys.argv[3]))
    else:
        main(sys.argv[1:])
