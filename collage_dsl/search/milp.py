"""The cheapest cover by integer programming."""

from importlib.util import find_spec

from collage_dsl.search.plan import Plan, Problem
from collage_dsl.search.tally import ASKED_FOR, Tally


def has_solver() -> bool:
    """Whether scipy, which brings the solver, is installed."""
    return find_spec("scipy") is not None


def milp(problem: Problem, *, because: str = ASKED_FOR) -> Plan:
    """
    A cheapest plan, as `dijkstra` finds it. Raises `NoPlanError`. Asks for every cost, unless
    the problem has lower bounds: then only for those of kernels that could be in a best plan.

    Time depends on how far the kernels that overlap compete, not on how many sets of nodes can
    be covered in part at a time. Costs that differ by less than a part in 10**12 of the
    dearest kernel's may be taken for equal by the solver. The record says why `milp`: `because`.
    """
    from collage_dsl.search.integer_program import cheapest  # scipy takes half a second to load

    tally = Tally(problem, "milp", because)
    return tally.plan(cheapest(problem, tally))
