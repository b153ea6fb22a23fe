"""Tune kernels of a model. The kernels that may make its best plan cheaper by most come first."""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum, inf
from pathlib import Path

from collage_dsl.backends.registry import BackendOf
from collage_dsl.cost import Cost, Infeasible
from collage_dsl.cost.records import Records, records_path
from collage_dsl.cost.trials import Trial
from collage_dsl.graph import CandidateKernel, OpSet
from collage_dsl.graph.tuning import Place
from collage_dsl.measuring.cost import MeasuredCost
from collage_dsl.measuring.recorded import place_of_kernel, untunable
from collage_dsl.measuring.tuning import CannotTune, Tuned, tune
from collage_dsl.realization.errors import BuildError
from collage_dsl.search import LowerBound, Plan, Problem, regrets

USUAL_TRIALS = 64
"""How many schedules are tried for a kernel by default."""

_MOST_PRICED = 400
"""With more priced candidates than this, only the kernels of the plan are tuned."""

Watch = Callable[[str, int, Trial], None]
"""Hears of each trial: the kernel, how many schedules were tried for it now, and the last one."""


@dataclass(frozen=True)
class TuningOptions:
    """
    How kernels are tuned: the file of `records`, by default that of the cost store; how many
    `trials` each kernel gets, by default as many as its target says, or else the `usual` number;
    and the seconds for all kernels together.
    """

    records: str | Path | None = None
    trials: int | None = None
    usual: int = 0
    budget: float = inf
    watch: Watch = lambda label, count, trial: None

    def path(self, store: str | Path) -> Path:
        """The file of records, by default that which belongs to a cost `store`."""
        return Path(self.records) if self.records else records_path(store)

    @cached_property
    def deadline(self) -> float:
        """When to stop, by `time.monotonic()`. The time begins when this is first asked for."""
        return time.monotonic() + self.budget


def existing_records(path: Path, stack: ExitStack) -> Records | None:
    """The records in a file, until `stack` is closed; None without such a file."""
    return stack.enter_context(Records(path)) if path.exists() else None


@dataclass(frozen=True, slots=True)
class Promise:
    """
    A kernel that tuning may make faster. `gain` is the number of seconds by which the best plan
    could become cheaper at most: if the kernel took no longer than its lower bound.
    """

    candidate: CandidateKernel
    gain: float


TunedCandidate = tuple[CandidateKernel, Tuned]


@dataclass(frozen=True, slots=True)
class Tuner:
    """
    Tunes kernels as `options` say: it times schedules as `cost` does, and keeps them in `records`.
    """

    cost: MeasuredCost
    records: Records
    options: TuningOptions

    def trials(self, candidate: CandidateKernel) -> int:
        """How many schedules are tried for a kernel."""
        if self.options.trials is not None:
            return self.options.trials
        return candidate.toolchain.tune.trials or self.options.usual

    def tune(self, candidate: CandidateKernel) -> Tuned:
        """Raises `CannotTune`."""
        count = 0

        def heard(trial: Trial) -> None:
            nonlocal count
            count += 1
            self.options.watch(candidate.label, count, trial)

        return tune(
            candidate,
            self.trials(candidate),
            self.cost,
            self.records,
            deadline=self.options.deadline,
            watch=heard,
        )

    def tune_plan(
        self, plan: Plan, costs: Mapping[CandidateKernel, Cost], least: LowerBound
    ) -> list[TunedCandidate]:
        """
        Tune the kernels that may make `plan` cheaper, the most promising first. `costs` are those
        of the candidates that the search has priced.
        """
        found = []
        for promise in self.promises(plan, costs, least):
            if time.monotonic() >= self.options.deadline:
                break
            found.append((promise.candidate, self.tune(promise.candidate)))
        return found

    def promises(
        self, plan: Plan, costs: Mapping[CandidateKernel, Cost], least: LowerBound
    ) -> list[Promise]:
        """
        The kernels to tune, by descending gain; equal kernels only once. The gain of a kernel is
        its time above its lower bound, minus the difference between the best plan with it and
        `plan`. If it is at several places of the model, the gains are added.
        """
        regret = _regrets(plan, costs)
        together: dict[Place, list[Promise]] = {}
        for candidate, seconds in costs.items():
            behind = regret.get(candidate)
            if isinstance(seconds, Infeasible) or behind is None:
                continue
            gain = seconds - least(candidate) - behind
            if gain > 0 and self.trials(candidate) and (place := self._place(candidate)):
                together.setdefault(place, []).append(Promise(candidate, gain))
        found = (
            Promise(each[0].candidate, fsum(promise.gain for promise in each))
            for each in together.values()
        )
        return sorted(found, key=lambda promise: -promise.gain)

    def _place(self, candidate: CandidateKernel) -> Place | None:
        """What records of a kernel are for; None if it cannot be tuned."""
        backend = self.cost.kernels.backend_of(candidate.toolchain)
        if untunable(candidate, backend):
            return None
        try:
            return place_of_kernel(self.cost.kernels.aimed(candidate), backend)
        except BuildError:
            return None


def _regrets(
    plan: Plan, costs: Mapping[CandidateKernel, Cost]
) -> Mapping[CandidateKernel, float | None]:
    """How much more the best plan with each candidate costs than `plan`."""
    whole = _of_any_variant(plan, costs)
    if len(costs) > _MOST_PRICED:
        return dict.fromkeys(whole.candidates, 0.0)
    return regrets(Problem(plan.graph, costs, lambda each: costs[each]), whole)


def _of_any_variant(plan: Plan, priced: Iterable[CandidateKernel]) -> Plan:
    """`plan` of the candidates that were `priced`, before a variant was chosen for each."""
    by_nodes = {(each.target, each.sub_graph): each for each in priced}
    kernels = (
        replace(
            kernel,
            candidate=by_nodes.get((kernel.target, kernel.candidate.sub_graph), kernel.candidate),
        )
        for kernel in plan.kernels
    )
    return replace(plan, kernels=tuple(kernels))


def kernel_at(
    plan: Plan, priced: Iterable[CandidateKernel], nodes: OpSet, backend_of: BackendOf
) -> CandidateKernel:
    """
    The kernel to tune for some nodes: that of `plan` which has them, if it can be tuned, else the
    largest one that the search has `priced` and that can be. Raises `CannotTune`.
    """
    every = sorted(priced, key=lambda each: -each.sub_graph.inside.bit_count())
    planned = _of_any_variant(plan, every).candidates
    there = [each for each in (*planned, *every) if each.sub_graph.inside & nodes]
    reasons = [untunable(each, backend_of(each.toolchain)) for each in there]
    for candidate, reason in zip(there, reasons, strict=True):
        if not reason:
            return candidate
    raise CannotTune(reasons[0] if reasons else "no target has a kernel there")
