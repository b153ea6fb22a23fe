"""How long a model takes by costs that are known, and how much of that each target can take."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from collage_dsl.backends.registry import NO_BACKEND
from collage_dsl.cost import NOWHERE, CostFunction, CostStore, Source, Sources, only
from collage_dsl.engine.compile import backends_of
from collage_dsl.engine.costs import Pricing
from collage_dsl.engine.covering import Coverage
from collage_dsl.engine.steps import choose, propose
from collage_dsl.graph import Graph, union_of
from collage_dsl.measuring.cost import MeasuredCost
from collage_dsl.realization.draws import timed_sizes_of
from collage_dsl.rules import FusionSpec
from collage_dsl.search import NoPlanError
from collage_dsl.targets.attach import TargetError


@dataclass(frozen=True, slots=True)
class KnownTime:
    """
    The cost of the cheapest plan of kernels whose costs are known, and how many these are. Of each
    target, the cost of those of these kernels whose calls it can all take.
    """

    seconds: float
    kernels: int
    of_target: dict[str, float]


class UnknownTimeError(Exception):
    """The time of a model is not known. Says why."""


def known_time(
    graph: Graph,
    specs: Sequence[FusionSpec],
    alone: Sequence[Coverage],
    cost: CostFunction,
    *,
    allow_extern: bool = False,
) -> KnownTime:
    """
    The time of `graph` by `cost`, which is infeasible where it is not known, and how much of it
    each of `specs` can take, of which `alone` says what they cover. Raises `UnknownTimeError`.
    """
    covered = union_of(each.covered for each in alone)
    if left := (graph.calls & ~covered).bit_count():
        raise UnknownTimeError(f"no target can run {left} of the operator calls")
    takes = {each.target: each.covered for each in alone}
    found = propose(graph, *specs, allow_extern=allow_extern)
    found = tuple(each for each in found if not each.calls & ~takes[each.target])
    try:
        plan = choose(graph, found, cost=cost, merge=specs)
    except NoPlanError as error:
        name = error.nodes[0] if error.nodes else ""
        where = f", such as one that takes `{name}`" if name else ""
        raise UnknownTimeError(f"the costs of some kernels are not known{where}") from error
    times = {
        each.target: sum(k.cost for k in plan.kernels if not k.candidate.calls & ~each.covered)
        for each in alone
    }
    return KnownTime(plan.cost, len(plan.kernels), times)


def priced_time(
    graph: Graph,
    specs: Sequence[FusionSpec],
    alone: Sequence[Coverage],
    costs: Sequence[str],
    store: Path,
    *,
    allow_extern: bool = False,
) -> KnownTime:
    """As `known_time`, by these sources of costs, which measure nothing."""
    with ExitStack() as stack:
        cost = Pricing(stack, store=store, sizes=next(timed_sizes_of(graph))).sources(only(costs))
        return known_time(graph, specs, alone, cost, allow_extern=allow_extern)


def measured_time(
    graph: Graph,
    specs: Sequence[FusionSpec],
    alone: Sequence[Coverage],
    store: Path,
    *,
    allow_extern: bool = False,
) -> KnownTime:
    """As `known_time`, by what is in the cost store, which is not changed."""
    try:
        backend_of = backends_of(specs)
    except (TargetError, *NO_BACKEND) as error:
        raise UnknownTimeError(str(error)) from error
    with (
        CostStore(store) as costs,
        MeasuredCost(backend_of, costs, sizes=next(timed_sizes_of(graph))) as measured,
    ):
        cost = Sources([Source("recorded", measured.recorded), NOWHERE])
        return known_time(graph, specs, alone, cost, allow_extern=allow_extern)
