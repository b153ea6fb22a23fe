"""
What a refinement by runs of whole plans gains.

    python benchmarks/refine.py MODEL … [--budget 60s] [--store FILE] [--state DIR] [--seconds N]

Each model of `suite.py` is compiled for TVM and ONNX Runtime twice, without a refinement and with
one. Then the two executables run in alternation, N seconds each (default 10). `before` and `after`
are these times, so they do not depend on the races inside the compilations. `kept` says whether
the refinement has found a plan that was faster for certain. The last line says on how many models
the second executable was faster, and on how many slower, for certain: the 95 % intervals of the two
times do not overlap.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import suite

import collage_dsl as collage
from collage_dsl.engine.race import Series
from collage_dsl.measuring.timing import interleaved
from collage_dsl.realization.draws import draws_of
from collage_dsl.report.documents import RefinementDocument

TARGETS = ("native", "onnxruntime")


@dataclass(frozen=True, slots=True)
class Row:
    """A model without and with a refinement."""

    model: str
    refinement: RefinementDocument
    before: Series
    after: Series

    def __str__(self) -> str:
        found = self.refinement
        before, after = (f"{each.low * 1e3:.3f} ms" for each in (self.before, self.after))
        ratio = f"{self.after.low / self.before.low:.3f}"
        cells = (self.model, found.run, found.known, found.failed, before, after, ratio)
        return f"| {' | '.join(map(str, cells))} | {'kept' if found.kept else ''} |"


def row(model: str, given: argparse.Namespace) -> Row:
    options = {"store": given.store, "race_seconds": given.race}
    plain = collage.compile(suite.model(model), targets=TARGETS, **options)
    refined = collage.compile(
        suite.model(model),
        targets=TARGETS,
        refine="evolutionary",
        budget=given.budget,
        refine_state=given.state,
        **options,
    )
    assert refined.report.refinement is not None
    calls = [call_of(plain), call_of(refined)]
    before, after = interleaved(calls, 1, budget=2 * given.seconds)
    return Row(model, refined.report.refinement, Series(tuple(before)), Series(tuple(after)))


def call_of(compiled: collage.Compiled) -> Callable[[], object]:
    executable = compiled.executable
    names = [value.name for value in executable.signature.inputs]
    inputs = next(draws_of(compiled.plan.graph)).inputs.values()
    tensors = executable.tensors(dict(zip(names, inputs, strict=True)))
    return lambda: executable.call(tensors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--race", type=float, default=2, help="seconds of each plan in a race")
    given = parser.parse_args()
    print("| model | run | known | failed | before | after | after / before | |")
    print("|---|---:|---:|---:|---:|---:|---:|---|")
    rows = []
    for model in given.models:
        rows.append(row(model, given))
        print(rows[-1], flush=True)
    faster = sum(each.after.is_less(each.before) for each in rows)
    slower = sum(each.before.is_less(each.after) for each in rows)
    print(f"\nof {len(rows)} models {faster} became faster and {slower} slower")


if __name__ == "__main__":
    main()
