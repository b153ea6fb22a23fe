"""
What plans are expected to take, and what they take when they run.

    python benchmarks/estimates.py [MODEL …] [--rarely] [--store FILE] [--seconds N]

For each model of `suite.py` (default: all), the mixed plan and that of each target alone are built
and run in turn for N seconds each (default 3). `as fast` is said of those that may be as fast as
the fastest: their intervals overlap, or they are within the noise margin. The last line says how
often the estimate is within 10 % and 20 % of the run, and for how many models the plan with the
least estimate is as fast as the fastest. With `--rarely`, kernels are timed with all in memory.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import suite

import collage_dsl as collage
from collage_dsl.graph import Measuring
from collage_dsl.rules import FusionSpec

LIBRARY = {"kind": "llvm", "feature.compiler": "onnxruntime"}


@dataclass(frozen=True, slots=True)
class Row:
    """The seconds of a plan as estimated and as run, and whether none is faster for certain."""

    model: str
    plan: str
    kernels: int
    estimated: float
    seconds: float
    is_fastest: bool

    @property
    def ratio(self) -> float:
        return self.estimated / self.seconds

    def __str__(self) -> str:
        cells = (self.model, self.plan, self.kernels, _ms(self.estimated), _ms(self.seconds))
        said = "as fast" if self.is_fastest else ""
        return f"| {' | '.join(map(str, cells))} | {self.ratio:.2f} | {said} |"


def rows(model: str, specs: Sequence[FusionSpec], store: Path | None, seconds: float) -> list[Row]:
    compiled = collage.compile(
        suite.model(model), targets=specs, store=store, race_seconds=seconds, plans=1
    )
    return [
        Row(
            model,
            each.name,
            sum(share.kernels for share in each.targets.values()),
            each.estimated,
            each.measured.seconds,
            each.tied,
        )
        for each in compiled.report.contenders
        if each.measured and each.estimated
    ]


def summary(every: Sequence[Sequence[Row]]) -> str:
    ratios = [abs(row.ratio - 1) for rows_ in every for row in rows_]
    within = " and ".join(
        f"{sum(each <= part for each in ratios)} within {part:.0%}" for part in (0.1, 0.2)
    )
    right = f"{sum(map(_is_right, every))} of {len(every)}"
    return (
        f"of {len(ratios)} plans {within}; that with the least estimate is the fastest on {right}"
    )


def _is_right(found: Sequence[Row]) -> bool:
    """Whether no plan is faster for certain than that which is expected to be the fastest."""
    return min(found, key=lambda row: row.estimated).is_fastest


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=suite.names())
    parser.add_argument("--store", type=Path)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rarely", action="store_true")
    given = parser.parse_args()
    gathered = [collage.gather({"kind": "llvm"}), collage.gather(LIBRARY)]
    measure = Measuring(runs="rarely" if given.rarely else "often")
    specs = [replace(s, target=replace(s.target, measure=measure)) for s in gathered]
    print("| model | plan | kernels | estimated | run | ratio | |")
    print("|---|---|---:|---:|---:|---:|---|")
    every = []
    for model in given.models:
        every.append(rows(model, specs, given.store, given.seconds))
        print("\n".join(map(str, every[-1])), flush=True)
    print(f"\n{summary(every)}")


if __name__ == "__main__":
    main()
