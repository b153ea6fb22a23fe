"""Tune a model: its most promising kernels, or the one that a user names."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from collage_dsl.backends.base import Backend
from collage_dsl.cost import CostSources, Variant
from collage_dsl.engine.compile import backends_of, check_names
from collage_dsl.engine.nodes import nodes_at
from collage_dsl.engine.planning import Planned, Planner
from collage_dsl.engine.sizes import Part, parts_of
from collage_dsl.engine.steps import MIXED
from collage_dsl.engine.tune import USUAL_TRIALS, TunedCandidate, TuningOptions, kernel_at
from collage_dsl.engine.verified import timed
from collage_dsl.frontend.onnx_model import Shapes
from collage_dsl.graph import CandidateKernel, OpSet
from collage_dsl.measuring.counts import Counts
from collage_dsl.measuring.elsewhere import Elsewhere
from collage_dsl.measuring.tuning import Tuned
from collage_dsl.rules import FusionSpec
from collage_dsl.search import NO_REPORTER, Plan, Reporter, Strategy


@dataclass(frozen=True, slots=True)
class TunedKernel:
    """A kernel that was tuned, and what its variants cost, measured anew."""

    candidate: CandidateKernel
    tuned: Tuned
    variants: Sequence[Variant]


def tune_model(
    model: Any,
    specs: Sequence[FusionSpec],
    *,
    at: str | None = None,
    options: TuningOptions | None = None,
    cost: CostSources | None = None,
    store: str | Path | None = None,
    backends: Sequence[Backend] = (),
    shapes: Shapes | None = None,
    timeout: float = 60,
    memory: int | None = None,
    elsewhere: Elsewhere | None = None,
    allow_extern: bool = False,
    strategy: Strategy = "auto",
    prove: bool = False,
    watch: Callable[[str, Counts], None] = lambda step, counts: None,
    reporter: Reporter = NO_REPORTER,
) -> list[TunedKernel]:
    """
    Try schedules for kernels of a model, and keep them in the records of `options`.

    With `at`, the only kernel is the one of the cheapest plan that has this node, or else the
    largest candidate there. Without it, all kernels are tuned that may make the plan cheaper, the
    most promising first. Which these are is found out by the sources `cost`, and by measuring what
    none of them knows. Kernels are built and timed `elsewhere`, if that is given. Raises
    `UnknownNode` where the model has no such node, and `CannotTune` where there is no such kernel.
    """
    check_names(specs)
    backend_of = backends_of(specs, backends)
    how = options or TuningOptions()
    how = replace(how, usual=how.usual or USUAL_TRIALS)
    [part] = parts_of(model, shapes, {}, None)
    part = timed(model, part)
    nodes = 0 if at is None else nodes_at(part.graph, at)
    planner = Planner(
        specs=specs,
        backend_of=backend_of,
        backends=backends,
        cost=cost,
        copies=None,
        store=store,
        timeout=timeout,
        memory=memory,
        allow_extern=allow_extern,
        strategy=strategy,
        prove=prove,
        watch=watch,
        reporter=reporter,
        tuning=how,
        elsewhere=elsewhere or Elsewhere(),
    )
    with planner.untuned(part) as planned:
        watch("tune", planned.counts)
    return _priced(planner, part, _tuned(planner, part, planned, nodes))


def _tuned(
    planner: Planner, part: Part, planned: Planned, nodes: OpSet
) -> Sequence[TunedCandidate]:
    """Tune the kernel that has one of the `nodes`; without any, all that may be worth it."""
    if not nodes:
        return planner.tune(part, planned)
    plan = planned.plans[MIXED]
    assert isinstance(plan, Plan)
    with planner.tuner(part) as tuner:
        candidate = kernel_at(plan, planned.prices, nodes, planner.backend_of)
        return [(candidate, tuner.tune(candidate))]


def _priced(planner: Planner, part: Part, found: Sequence[TunedCandidate]) -> list[TunedKernel]:
    """The kernels with the costs of their variants, of which one is the best schedule now."""
    with ExitStack() as stack:
        cost = planner.pricing(part, stack).measuring()
        for candidate, _ in found:
            cost(candidate)
        return [TunedKernel(each, tuned, cost.variants(each)) for each, tuned in found]
