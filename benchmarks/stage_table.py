"""Medians of the stage boundaries of specs, as the rows of a Markdown table: what docs/stages.md quotes.

python benchmarks/stage_table.py specs/paper/figure2.yaml specs/controls/population-flow.yaml
"""

import sys
import tempfile

import attndyn


def row(path: str, out: str) -> str:
    """One spec's medians (in steps), first setting, layer and head; `-` where a boundary is absent."""
    run = attndyn.run(path, out)
    stages = run.analyze(["stages"])["stages"].isel(setting=0, layer=0, head=0)
    medians = stages["boundary_median"].to_series()
    cells = [f"{name} {'-' if step != step else format(step, '.0f')}" for name, step in medians.items()]
    in_order = f"{int(stages['in_order'].sum())} of {stages.sizes['replica']}"
    run.close()
    return f"| {run.spec.name} | {' | '.join(cells)} | in order {in_order} |"


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as out:
        for spec in sys.argv[1:]:
            print(row(spec, out), flush=True)
