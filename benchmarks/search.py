"""
Time the steps that happen even if no kernel is built or timed: propose, choose, rewrite.

    python benchmarks/search.py [--json] [--runs 5] [--regions] [NAME...]

Each model (benchmarks/graphs.py) runs several times, each time in a new process; the quickest run
is shown. The targets are the three of benchmarks/search.collage; for models with parallel branches,
the two of benchmarks/horizontal.collage. Nothing is measured: the k-th operator of a kernel costs
c * 0.9^k. The times are CPU seconds of one core, without the imports of Python modules and without
making the graph. The memory is the most that the process had, with TVM. With `--regions` the target
`compiler` says `after max_coalesce()`, so that regions are searched for too.
"""

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import process_time
from typing import Any

import graphs

import collage_dsl as collage
from collage_dsl.backends.base import Backend
from collage_dsl.graph import CandidateKernel, Graph, Kind
from collage_dsl.rules import Limits

SPEC = Path(__file__).with_name("search.collage")
HORIZONTAL = Path(__file__).with_name("horizontal.collage")

MODELS: Mapping[str, Callable[[], Graph]] = {
    "resnet50": graphs.resnet50,
    "gpt2": graphs.gpt2,
    "bert24": lambda: graphs.bert(24),
    "chain512": lambda: graphs.chain(512),
    "inception": lambda: graphs.inception(9),
    "nasnet": lambda: graphs.nasnet(12),
    "chain1000": lambda: graphs.chain(333),
    "chain2000": lambda: graphs.chain(667),
    "chain5000": lambda: graphs.chain(1667),
    "chain10000": lambda: graphs.chain(3333),
    "resnet1000": lambda: graphs.resnet(100),
    "resnet2000": lambda: graphs.resnet(200),
    "resnet5000": lambda: graphs.resnet(500),
    "resnet10000": lambda: graphs.resnet(1000),
    "branches16": lambda: graphs.branches(16),
}
LARGE: Mapping[str, Callable[[], Graph]] = {
    "chain100000": lambda: graphs.chain(33_333),
    "resnet100000": lambda: graphs.resnet(10_000),
    "chain30000": lambda: graphs.chain(10_000),
    "resnet30000": lambda: graphs.resnet(3_000),
}
"""Models that are timed only if they are named."""

FIRST = {"native": {"anchor": 10e-6, "other": 3e-6}, "library": {"anchor": 7e-6, "other": 4e-6}}
FIRST["compiler"] = {"anchor": 8e-6, "other": 3.5e-6}
"""For each target, the seconds of an operator as a kernel by itself."""


@dataclass(frozen=True, slots=True)
class Library(Backend):
    """A library of which only the name is known."""

    called: str

    @property
    def name(self) -> str:
        return self.called

    @property
    def version(self) -> str:
        return "1"

    def supports(self, graph: Graph) -> str | None:
        return None


BACKENDS = (Library("library"), Library("compiler"))


@dataclass(frozen=True, slots=True)
class Row:
    """Counts, CPU seconds by phase, and megabytes."""

    model: str
    operators: int
    candidates: int
    strategy: str
    states: int
    estimates: int
    kernels: int
    propose: float
    choose: float
    rewrite: float
    total: float
    megabytes: int


def price(candidate: CandidateKernel) -> float:
    """The k-th operator of a kernel costs c * 0.9^k."""
    graph, costs = candidate.graph, FIRST[candidate.target]
    total = 0.0
    for k, index in enumerate(candidate.call_indexes):
        kind = "anchor" if graph.nodes[index].kind is Kind.ANCHOR else "other"
        total += costs[kind] * 0.9**k
    return total


def timed(model: str, *, with_regions: bool) -> Row:
    graph = {**MODELS, **LARGE}[model]()
    warm_up(collage.load(SPEC))
    specs = dict(collage.load(HORIZONTAL if model.startswith("branches") else SPEC))
    if with_regions and "compiler" in specs:
        limits = Limits(max_exits=None, taps=True)
        specs["compiler"] = replace(specs["compiler"], coalesce=True, limits=limits)
    start = process_time()
    found = collage.propose(graph, *specs.values())
    proposed = process_time()
    plan = collage.choose(graph, found, cost=price, merge=list(specs.values()))
    chosen = process_time()
    collage.realize(plan, backends=BACKENDS)
    end = process_time()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    record = plan.record
    assert record is not None
    return Row(
        model,
        graph.calls.bit_count(),
        len(found),
        record.strategy,
        record.states,
        record.priced,
        len(plan.kernels),
        proposed - start,
        chosen - proposed,
        end - chosen,
        end - start,
        memory,
    )


def warm_up(specs: Mapping[str, Any]) -> None:
    """Import the modules that are imported on first use."""
    graph = graphs.chain(1)
    found = collage.propose(graph, *specs.values())
    collage.realize(collage.choose(graph, found, cost=price), backends=BACKENDS)


def table(rows: list[Row]) -> str:
    head = "| model | operators | candidates | strategy | states | estimates | kernels |"
    head += " propose | choose | rewrite | total | MB |"
    lines = [head, "|---|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for row in rows:
        counts = f"{row.operators} | {row.candidates} | {row.strategy} | {row.states}"
        times = f"{row.propose:.2f} | {row.choose:.2f} | {row.rewrite:.2f} | {row.total:.2f}"
        counts += f" | {row.estimates} | {row.kernels}"
        lines.append(f"| {row.model} | {counts} | {times} | {row.megabytes} |")
    return "\n".join(lines)


def least_disturbed(names: list[str], runs: int, *options: str) -> list[Row]:
    """
    For each model the quickest of several runs, in rounds over all models. Other work on the
    machine makes runs slower and never quicker. In rounds, all models have similar conditions.
    """
    rounds = [[_apart(name, *options) for name in names] for _ in range(runs)]
    return [min(rows, key=lambda row: row.total) for rows in zip(*rounds, strict=True)]


def _apart(name: str, *options: str) -> Row:
    """One run in a new process."""
    command = [sys.executable, __file__, "--one", name, *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Row(**json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description="Time propose, choose and rewrite.")
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(MODELS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--regions", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(asdict(timed(asked.one, with_regions=asked.regions))))
        return
    rows = least_disturbed(asked.names, asked.runs, *["--regions"][: asked.regions])
    print(json.dumps([asdict(row) for row in rows]) if asked.json else table(rows))


if __name__ == "__main__":
    main()
