"""Search again for the plans of a lock, with the costs that were recorded then."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from collage_dsl.backends.base import Backend
from collage_dsl.engine.costs import with_provenance
from collage_dsl.engine.devices import DefaultDevice
from collage_dsl.engine.lock import Lock
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.sizes import WantedSizes, parts_of
from collage_dsl.engine.steps import MIXED, mixed_rank, searched
from collage_dsl.frontend.onnx_model import Shapes
from collage_dsl.rules import FusionSpec
from collage_dsl.search import NO_REPORTER, Plan, Reporter, Strategy


@dataclass(frozen=True, slots=True)
class Replayed:
    """
    The plan that a search has found for some `sizes`, of the name that was chosen in the race, or
    why there is none; and the labels of its kernels that were not chosen when the model was frozen.
    The best plan over all targets stands for one that no search finds, such as a refined one.
    """

    sizes: dict[str, int]
    chosen: str
    plan: Plan | str
    differences: list[str]


def replay(
    model: Any,
    specs: Sequence[FusionSpec],
    lock: Lock,
    *,
    shapes: Shapes | None = None,
    sizes: WantedSizes | None = None,
    allow_extern: bool = False,
    backends: Sequence[Backend] = (),
    strategy: Strategy = "auto",
    reporter: Reporter = NO_REPORTER,
) -> list[Replayed]:
    """
    Search for the plan of each part of a model. Nothing is measured: a kernel that was not priced
    when the model was frozen is infeasible. Raises `LockError` if the lock is not for this model,
    these targets or sizes.
    """
    parts = parts_of(model, shapes, sizes or {}, None)
    found = []
    for part, locked in zip(parts, lock.checked_plans(parts, specs), strict=True):
        costs = locked.recorded()
        plans = searched(
            part.graph,
            specs,
            costs,
            lookup(allow_extern=allow_extern, backends=backends),
            strategy,
            reporter=reporter,
            default=DefaultDevice(specs[0].target.kind, locked.is_copying),
            count=mixed_rank(locked.chosen) or 1,
        ).plans
        plan = plans.get(locked.chosen, plans[MIXED])
        if isinstance(plan, Plan):
            plan = locked.with_variants(with_provenance(plan, costs))
        differences = locked.differences(plan) if isinstance(plan, Plan) else []
        found.append(Replayed(dict(part.sizes), locked.chosen, plan, differences))
    return found
