"""Keep the plans that refinements have run, and what they took, in a file."""

import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from collage_dsl.cost import Cost, Infeasible
from collage_dsl.cost.strict import Strict
from collage_dsl.engine.locked import LockedKernel
from collage_dsl.graph import CandidateKernel, Graph, Toolchain
from collage_dsl.reading import first_fault, text_of
from collage_dsl.rules import FusionSpec
from collage_dsl.scratch import replacement
from collage_dsl.search import Genome, PlannedKernel, Problem, Times
from collage_dsl.search.execution_order import CyclicPlanError, in_execution_order

_MOST_BYTES = 1 << 26
"""The longest state that is read."""


class RefineWarning(UserWarning):
    """The state of a refinement cannot be used."""


class _Run(Strict):
    """A plan, by the numbers of its kernels: how long it takes, or why it cannot run."""

    kernels: list[Annotated[int, Field(ge=0)]]
    time: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    reason: str = ""


class State(Strict):
    """
    The plans that were run, and what they took, as a multiple of what the first one took.
    `made_for` is a hash of the model, targets, versions and the processor.
    """

    version: Literal[1] = 1
    made_for: str
    kernels: list[LockedKernel]
    runs: list[_Run]


def write_state(path: Path, made_for: str, times: Times) -> None:
    """Keep what plans take; the file has its old or its new content at any moment."""
    numbers: dict[CandidateKernel, int] = {}
    for genome in times:
        for kernel in genome:
            numbers.setdefault(kernel, len(numbers))
    runs = [
        _Run(kernels=[numbers[kernel] for kernel in genome], reason=cost.reason)
        if isinstance(cost, Infeasible)
        else _Run(kernels=[numbers[kernel] for kernel in genome], time=cost)
        for genome, cost in times.items()
    ]
    kernels = [LockedKernel.of(PlannedKernel(kernel, 0.0)) for kernel in numbers]
    state = State(made_for=made_for, kernels=kernels, runs=runs)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacement(path) as new:
        new.write_text(state.model_dump_json(exclude_defaults=True), "utf-8")


def read_state(
    path: Path, made_for: str, problem: Problem, specs: Sequence[FusionSpec]
) -> dict[Genome, Cost]:
    """The plans that were run before. A damaged file is renamed, with a warning."""
    try:
        state = State.model_validate_json(text_of(path, _MOST_BYTES))
        if state.made_for != made_for:
            raise ValueError("it is for another model, other targets or another machine")
        return _times(state, problem, {spec.name: spec.target for spec in specs})
    except FileNotFoundError:
        return {}
    except ValidationError as error:
        fault = first_fault(error)
    except (LookupError, ValueError, CyclicPlanError) as error:
        fault = str(error)
    now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    aside = path.with_name(f"{path.name}.damaged-{now}")
    path.replace(aside)
    said = f"the state of a refinement {path} cannot be used: {fault}"
    warnings.warn(RefineWarning(f"{said}; it is now {aside.name}"), stacklevel=2)
    return {}


def _times(state: State, problem: Problem, targets: Mapping[str, Toolchain]) -> dict[Genome, Cost]:
    """The times of the plans that were run, without plans with a kernel that is infeasible now."""
    graph = problem.graph
    known = {_said(LockedKernel.of(PlannedKernel(each, 0.0))): each for each in problem.priced}
    kernels = [
        known.get(_said(each)) or each.kernel(graph, targets).candidate for each in state.kernels
    ]
    found: dict[Genome, Cost] = {}
    for run in state.runs:
        genome = [kernels[number] for number in run.kernels]
        _check(graph, genome)
        if not any(isinstance(problem.cost(each), Infeasible) for each in genome):
            time = Infeasible(run.reason) if run.time is None else run.time
            found[in_execution_order(graph, genome)] = time
    return found


def _said(kernel: LockedKernel) -> str:
    return kernel.model_dump_json(exclude={"cost"})


def _check(graph: Graph, genome: Sequence[CandidateKernel]) -> None:
    """Raise ValueError if these kernels do not cover each call once."""
    covered = 0
    for each in genome:
        inside = each.sub_graph.inside
        if inside & (covered | ~graph.computed):
            raise ValueError("two kernels of a plan overlap, or a kernel has inputs inside")
        covered |= inside
    if graph.calls & ~covered:
        raise ValueError("a plan does not cover the model")
