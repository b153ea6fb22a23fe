"""
How far the analytic estimates are from measured costs.

    python benchmarks/analytic.py [MODEL …] [--measure N] [--rarely] [--store FILE]

The kernels are those that the native spec and the one of onnxruntime propose for models of
`suite.py` (default squeezenet, shufflenet and mobilenet_v2), and that the store has costs of. With
`--measure N`, N of each target and model are measured first: the same ones each time. The rates of
this machine are those in the store; `--calibrate` measures them first. With `--rarely`, kernels
are timed as in a model that runs rarely.

A row says, of the kernels of one target, how well the estimates order them (Spearman's rank
correlation with the measured costs), the median of estimate / measured, and between which ratios
four of five kernels are.
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from random import Random

import numpy as np
import suite

import collage_dsl as collage
from collage_dsl.cost import CostFunction, CostStore, Infeasible
from collage_dsl.engine.costs import Pricing
from collage_dsl.engine.specs import specs_of
from collage_dsl.graph import CandidateKernel, Measuring
from collage_dsl.measuring.calibration import calibrate
from collage_dsl.rules import FusionSpec


@dataclass(frozen=True, slots=True)
class Pair:
    """The seconds of one kernel: as estimated, and as measured."""

    model: str
    target: str
    estimated: float
    measured: float


def pairs(
    model: str, specs: Sequence[FusionSpec], store: Path, most_measured: int
) -> Iterator[Pair]:
    """Those of the kernels of a model whose costs are known."""
    graph = collage.from_onnx(suite.model(model))
    with ExitStack() as stack:
        pricing = Pricing(stack, store=store)
        estimate, recorded = pricing.sources("analytic"), pricing.sources("recorded")
        for spec in specs:
            found = collage.propose(graph, spec)
            if most_measured:
                some = Random(0).sample(found, min(most_measured, len(found)))
                pricing.sources("measured").ahead(some)
            yield from _known(model, found, estimate, recorded)


def _known(
    model: str, found: Sequence[CandidateKernel], estimate: CostFunction, recorded: CostFunction
) -> Iterator[Pair]:
    for kernel in found:
        measured = recorded(kernel)
        if isinstance(measured, Infeasible) or isnan(measured):
            continue
        estimated = estimate(kernel)
        if not isinstance(estimated, Infeasible) and not isnan(estimated):
            yield Pair(model, kernel.target, estimated, measured)


def row(name: str, some: Sequence[Pair]) -> str:
    from scipy.stats import spearmanr  # takes half a second

    ratios = [pair.estimated / pair.measured for pair in some]
    rank = spearmanr([p.estimated for p in some], [p.measured for p in some]).statistic
    low, median, high = np.percentile(ratios, (10, 50, 90))
    return f"| {name} | {len(some)} | {rank:.2f} | {median:.2f} | {low:.2f} to {high:.2f} |"


def rows(every: Sequence[Pair]) -> Iterator[str]:
    yield "| kernels | number | rank correlation | median ratio | four of five |"
    yield "|---|---:|---:|---:|---|"
    for target in dict.fromkeys(pair.target for pair in every):
        yield row(target, [pair for pair in every if pair.target == target])
    yield row("all", every)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare analytic estimates with measured costs.")
    parser.add_argument("models", nargs="*", default=["squeezenet", "shufflenet", "mobilenet_v2"])
    parser.add_argument("--store", type=Path, default=Path("costs.sqlite"))
    parser.add_argument("--measure", type=int, default=0)
    parser.add_argument("--calibrate", action="store_true")
    parser.add_argument("--rarely", action="store_true")
    given = parser.parse_args()
    if given.calibrate:
        with CostStore(given.store) as store:
            for name, rates in calibrate(store):
                print(f"{name}: {rates}")
    specs: Sequence[FusionSpec] = specs_of(["native", "onnxruntime"])
    if given.rarely:
        rarely = Measuring(runs="rarely")
        specs = [replace(spec, target=replace(spec.target, measure=rarely)) for spec in specs]
    every = [p for m in given.models for p in pairs(m, specs, given.store, given.measure)]
    if not every:
        parser.exit(1, f"{given.store} has no costs of these kernels: give --measure N\n")
    print("\n".join(rows(every)))


if __name__ == "__main__":
    main()
