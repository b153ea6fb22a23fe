"""A strategy for graphs with many branches: it finds a cheapest plan by integer programming."""

from importlib.util import find_spec

from collage_dsl.search.plan import Plan
from collage_dsl.search.problem import Problem
from collage_dsl.search.tally import ASKED_FOR, Tally


def has_solver() -> bool:
    """Whether scipy, which brings the solver, is installed."""
    return find_spec("scipy") is not None


def milp(problem: Problem, *, budget: int | None = None, because: str = ASKED_FOR) -> Plan:
    """
    A cheapest plan, as good as that of `dijkstra`. Raises `NoPlanError`. Asks for every cost. If
    the problem has lower bounds, asks only for costs of kernels that could be in a best plan.

    With a `budget`, a solution of the program takes at most so many nodes of branch and bound, and
    at most 10 s. Then the plan may not be the cheapest, and its record has a lower bound. Raises
    `BudgetSpentError` if no plan was found with these.

    The time depends on how the kernels that overlap compete, not on how many sets of nodes can
    be covered in part. The solver may treat costs as equal if they differ by less than 1e-11 of
    the cost of the plan. `because` says in the record why `milp` was used.
    """
    from collage_dsl.search.integer_program import cheapest  # scipy takes half a second to load

    tally = Tally(problem, "milp", because)
    return tally.plan(*cheapest(problem, tally, budget))
