"""
Count the kernels that must be measured to find a cheapest plan of the light models.

    python benchmarks/lazy.py [--store FILE] [--part PART] [MODEL…]

The costs come from the store, by default that of `collage plan`. Missing costs are measured and
stored, which takes a while the first time.

Many candidates of the shipped targets native and onnxruntime are the same kernel. `priced` counts
the kernels whose cost `dijkstra` asked for without lower bounds, `with bounds` those with the lower
bounds of `collage plan --prove`, and `predicted` those of the search of `collage plan` for all
targets. `fewer` says how many fewer these are than all kernels. `--part 0.5` uses half of each real
cost as its bound instead, to see what better bounds would give. `needed` counts the kernels that
every search with these bounds must price for a proof: if such a kernel cost only its bound, a plan
with it would be cheaper than any other. `below` counts the kernels that cost less than their bound;
there should be none. The last two columns are the cost of the plan with predicted costs, and of the
plan of `milp` with every kernel priced. The last row counts the kernels of all models; models share
some kernels.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import collage_dsl as collage
from collage_dsl.backends.registry import BackendOf
from collage_dsl.cli.targets import load_targets
from collage_dsl.cost import Cost, CostStore, Infeasible
from collage_dsl.cost.store import default_store_path
from collage_dsl.engine.compile import backends_of
from collage_dsl.frontend.light import light_model, light_models
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph import CandidateKernel, Graph
from collage_dsl.measuring.bounds import lower_bound
from collage_dsl.measuring.cost import MeasuredCost
from collage_dsl.measuring.key import context_of, kernel_key
from collage_dsl.realization.kernel import kernel_view
from collage_dsl.rules import FusionSpec
from collage_dsl.search import Hints, LowerBound, Plan, Problem, Regions, regrets, search
from collage_dsl.search.problem import SECOND

TARGETS = ("native", "onnxruntime")
HEAD = (
    *("model", "candidates", "kernels", "priced", "with bounds", "predicted", "fewer"),
    *("needed", "below", "plan", "all"),
)

Kernel = tuple[str, str]
"""What a kernel computes, and everything else that its cost depends on, as two hashes."""


@dataclass(frozen=True, slots=True)
class Priced:
    """Candidates, the kernel of each candidate, and the cost of each kernel."""

    graph: Graph
    kernel_of: Mapping[CandidateKernel, Kernel]
    cost_of: Mapping[Kernel, Cost]

    def cost(self, candidate: CandidateKernel) -> Cost:
        return self.cost_of[self.kernel_of[candidate]]

    def problem(self, bound: LowerBound | None = None) -> Problem:
        return Problem(self.graph, self.kernel_of, self.cost, Hints(bound))

    def by_dijkstra(self, bound: LowerBound | None) -> tuple[Plan, int]:
        """The plan, and how many kernels were priced for it."""
        problem = self.problem(bound)
        plan = search(problem, "dijkstra")
        return plan, self._count(problem)

    def predicted(self, bound: LowerBound) -> tuple[Plan, int]:
        """The same by the search of `collage plan`, which predicts costs, without regions."""
        hints = Hints(bound, predicts=True)
        found = Regions(self.graph, self.kernel_of, self.cost, {}, hints)
        return found.plan(), self._count(found.priced())

    def _count(self, problem: Problem) -> int:
        """How many kernels were priced."""
        return len({kernel for each, kernel in self.kernel_of.items() if problem.is_asked(each)})

    def part_of_cost(self, part: float) -> LowerBound:
        """A lower bound that is the fraction `part` of each cost."""

        def bound(candidate: CandidateKernel) -> float:
            cost = self.cost(candidate)
            return 0.0 if isinstance(cost, Infeasible) else part * cost

        return bound

    def needed(self, plan: Plan, bound: LowerBound) -> int:
        """How many kernels would be in a cheaper plan if they cost only their `bound`."""
        return len(set(self._needed(plan, bound)))

    def below(self, bound: LowerBound) -> int:
        """How many kernels cost less than their `bound`."""
        costs = ((each, self.cost(each)) for each in self.kernel_of)
        priced = ((each, cost) for each, cost in costs if not isinstance(cost, Infeasible))
        return len({self.kernel_of[each] for each, cost in priced if cost < bound(each)})

    def _needed(self, plan: Plan, bound: LowerBound) -> Iterator[Kernel]:
        for each, regret in regrets(self.problem(), plan).items():
            cost = self.cost(each)
            if regret is None or isinstance(cost, Infeasible):
                continue
            if round(regret * SECOND) < round((cost - bound(each)) * SECOND):
                yield self.kernel_of[each]


def priced(
    name: str, specs: Sequence[FusionSpec], backend_of: BackendOf, cost: MeasuredCost
) -> Priced:
    """All candidates of a model, every cost measured or looked up."""
    graph = from_onnx(light_model(name))
    found = collage.propose(graph, *specs)
    kernel_of = {each: kernel(each, backend_of) for each in found}
    return Priced(graph, kernel_of, {kernel_of[each]: cost(each) for each in found})


def kernel(candidate: CandidateKernel, backend_of: BackendOf) -> Kernel:
    backend = backend_of(candidate.toolchain)
    key = kernel_key(candidate, backend, kernel_view(candidate, backend))
    return key, context_of(candidate.toolchain, backend).key


@dataclass(frozen=True, slots=True)
class Row:
    """The counts of one model, or of several."""

    candidates: int
    kernels: int
    unaided: int
    asked: int
    predicted: int
    needed: int
    below: int
    plan: float
    every: float

    @classmethod
    def of(cls, found: Priced, bound: LowerBound) -> "Row":
        _, unaided = found.by_dijkstra(None)
        exact, asked = found.by_dijkstra(bound)
        plan, predicted = found.predicted(bound)
        return cls(
            candidates=len(found.kernel_of),
            kernels=len(found.cost_of),
            unaided=unaided,
            asked=asked,
            predicted=predicted,
            needed=found.needed(exact, bound),
            below=found.below(bound),
            plan=plan.cost,
            every=search(found.problem(), "milp").cost,
        )

    @classmethod
    def sum(cls, rows: Sequence["Row"]) -> "Row":
        return cls(*map(sum, zip(*map(astuple, rows), strict=True)))

    def show(self, name: str) -> None:
        cells = (
            *map(str, (self.candidates, self.kernels, self.unaided, self.asked, self.predicted)),
            f"{1 - self.predicted / self.kernels:.1%}",
            *map(str, (self.needed, self.below)),
            *(f"{seconds * 1e3:.6f} ms" for seconds in (self.plan, self.every)),
        )
        print("| " + " | ".join((name, *cells)) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the kernels that have to be measured.")
    parser.add_argument("names", nargs="*", metavar="MODEL", default=light_models())
    parser.add_argument("--store", type=Path, default=default_store_path())
    parser.add_argument("--part", type=float)
    asked = parser.parse_args()
    print("| " + " | ".join(HEAD) + " |")
    print("|---|" + "---:|" * (len(HEAD) - 1))
    rows = []
    specs = load_targets(TARGETS, num_cores=1)
    backend_of = backends_of(specs)
    with CostStore(asked.store) as store, MeasuredCost(backend_of, store) as cost:
        least = lower_bound(cost)
        for name in asked.names:
            found = priced(name, specs, backend_of, cost)
            bound = least if asked.part is None else found.part_of_cost(asked.part)
            rows.append(Row.of(found, bound))
            rows[-1].show(name)
    Row.sum(rows).show("all")


if __name__ == "__main__":
    main()
