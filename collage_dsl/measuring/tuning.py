"""Tune one native kernel: try schedules for its fused function, and keep what each takes."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from collage_dsl.backends.schedule.tuned import place_of
from collage_dsl.backends.tvm_target import kernel_target
from collage_dsl.cost import Infeasible
from collage_dsl.cost.records import Records
from collage_dsl.cost.trials import Trial
from collage_dsl.graph import CandidateKernel, Record
from collage_dsl.graph.tuning import TUNED, Place
from collage_dsl.measuring.cost import MeasuredCost
from collage_dsl.measuring.process import Failed
from collage_dsl.measuring.recorded import label_of, untunable, with_record
from collage_dsl.measuring.schedules import BATCH, Schedules
from collage_dsl.measuring.task import Timing
from collage_dsl.realization.errors import BuildError
from collage_dsl.realization.fused import fused_function
from collage_dsl.realization.variants import with_variant


class CannotTune(Exception):  # noqa: N818, reads as what it says
    """A kernel cannot be tuned. The message says why."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """What is known of a kernel after it was tuned: every trial, of which `new` were made now."""

    place: Place
    label: str
    trials: tuple[Trial, ...]
    new: int

    @property
    def best(self) -> Trial | None:
        """The fastest trial; None if none could be used."""
        return next((each for each in self.trials if not isinstance(each.cost, Infeasible)), None)


def tune(
    candidate: CandidateKernel,
    trials: int,
    cost: MeasuredCost,
    records: Records,
    *,
    deadline: float = float("inf"),
    watch: Callable[[Trial], None] = lambda trial: None,
) -> Tuned:
    """
    Try schedules for a kernel until `trials` are in `records`, or until `time.monotonic()` is past
    the `deadline`. Each is built, compared with the first variant, and timed as `cost` does it for
    every kernel. It is kept as soon as it was timed, so that what was found is never lost.

    Raises `CannotTune` for a kernel of another backend, or of any size.
    """
    backend = cost.kernels.backend_of(candidate.toolchain)
    if reason := untunable(candidate, backend):
        raise CannotTune(reason)
    try:
        function = fused_function(cost.kernels.aimed(candidate), backend)
    except BuildError as error:
        raise CannotTune(str(error)) from error
    target, label = kernel_target(cost.kernels.aimed(candidate).toolchain), label_of(candidate)
    place = place_of(function, target)
    before = records.trials(place)
    tried = {each.record.trace: each.cost for each in before}

    def kept(tuned: CandidateKernel, found: Timing | Failed) -> None:
        assert tuned.toolchain.record is not None
        price = Infeasible(found.reason) if isinstance(found, Failed) else found.seconds
        trial = Trial(tuned.toolchain.record, label, cost.machine.name, price)
        records.add([trial])
        tried[trial.record.trace] = price
        watch(trial)

    schedules = Schedules(function, target, tried)
    while len(tried) < trials and time.monotonic() < deadline:
        proposed = schedules.next(min(BATCH, trials - len(tried)))
        if not proposed:
            break
        offered = (with_record(candidate, Record(place, trace)) for trace in proposed)
        cost.time([with_variant(each, TUNED) for each in offered], kept)
        schedules.learn({trace: tried[trace] for trace in proposed if trace in tried})
    return Tuned(place, label, tuple(records.trials(place)), len(tried) - len(before))
