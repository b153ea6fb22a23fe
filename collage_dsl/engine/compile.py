"""The steps of compiling a model: plan, build and race several plans, and verify the fastest."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from collage_dsl.argument_types import with_checked_types
from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import BackendOf, installed
from collage_dsl.backends.tvm_target import foreign, ignored
from collage_dsl.engine.lock import Lock
from collage_dsl.engine.planning import Planned, Planner, measurements_of
from collage_dsl.engine.race import Contender, built, contenders_of, race
from collage_dsl.engine.refine import Refiner, Refining
from collage_dsl.engine.sizes import Part, timed_sizes
from collage_dsl.engine.steps import is_of_all_targets
from collage_dsl.engine.verified import verified
from collage_dsl.measuring.counts import Counts
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.saving import save
from collage_dsl.report.documents import (
    CompileDocument,
    ContenderDocument,
    PlanDocument,
    RaceDocument,
    RefinementDocument,
    SizeDocument,
    VerificationDocument,
)
from collage_dsl.rules import FusionSpec
from collage_dsl.saved import PLAN, REPORT
from collage_dsl.scratch import replacement
from collage_dsl.search import Plan
from collage_dsl.targets.attach import TargetError


@dataclass(frozen=True, slots=True)
class Compiled:
    """
    The fastest executable of the race, the plan that it was built from, and a report. Of a model
    that was compiled for several sizes, `plan` is that for any size; the report has all plans.
    """

    executable: ModelExecutable
    plan: Plan
    report: CompileDocument
    lock: Callable[[], Lock]
    """Makes the lock with which the model is compiled again to the same kernels."""

    def run(
        self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The outputs by name; see `ModelExecutable.run`."""
        return self.executable.run(inputs, out)

    @with_checked_types()
    def save(self, folder: str | Path) -> None:
        """Write executable, plan and report to `folder`; see `saving.save`."""
        documents = {
            PLAN: self.report.plan.model_dump_json(indent=2),
            REPORT: self.report.model_dump_json(indent=2),
        }
        save(self.executable, Path(folder), documents)

    @with_checked_types()
    def freeze(self, path: str | Path) -> None:
        """Write the lock to a file, for `frozen` of `compile`."""
        with replacement(Path(path)) as new:
            new.write_text(self.lock().text(), "utf-8")


def backends_of(specs: Sequence[FusionSpec], given: Sequence[Backend] = ()) -> BackendOf:
    """
    The backend of each toolchain in `specs`. Raises the same errors as `find_backend`, and
    `TargetError` for a target that no backend can build kernels for, or whose processor LLVM does
    not know.
    """
    find = installed(given)
    for spec in specs:
        if said := ignored(spec.target):
            raise TargetError(f"target `{spec.name}`: {said}")
        kinds = find(spec.target).kinds
        if spec.target.kind not in kinds:
            raise TargetError(
                f"target `{spec.name}` is on {spec.target.kind}: kernels can be built and timed "
                f"on {' and '.join(kinds)} only"
            )
    return find


def backends_here(specs: Sequence[FusionSpec], given: Sequence[Backend] = ()) -> BackendOf:
    """
    Like `backends_of`, for kernels that also run on this machine. Raises `TargetError` for a target
    of another processor.
    """
    find = backends_of(specs, given)
    for spec in specs:
        if said := foreign(spec.target):
            raise TargetError(
                f"target `{spec.name}`: {said}. Plans are raced and verified here: compile on such "
                "a machine, or use `collage plan`"
            )
        find(spec.target).prepare()
    return find


def check_names(specs: Sequence[FusionSpec]) -> None:
    """Raise `TargetError` if there is no target, or if two have the same name."""
    names = [spec.name for spec in specs]
    if not names:
        raise TargetError("no target is given")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise TargetError(f"two of the targets are named `{twice}`")
    if taken := next(filter(is_of_all_targets, names), None):
        raise TargetError(
            f"a target cannot be named `{taken}`: this is the name of another plan in reports"
        )


def frozen_parts(
    lock: Lock, parts: Sequence[Part], specs: Sequence[FusionSpec], backend_of: BackendOf
) -> list["Raced"]:
    """The plans of a lock for the parts of a model, as winners of a race that nobody ran."""
    kept = lock.plans_for(parts, specs, backend_of)
    return [
        Raced(part, Planned({by: plan}, Counts(), {}), Contender(by, plan, None), ())
        for part, (by, plan) in zip(parts, kept, strict=True)
    ]


def raced_parts(
    planner: Planner, parts: Sequence[Part], seconds: float, refining: Refining | None
) -> list["Raced"]:
    """
    The winner for each part of a model. If there are several, their executables are dropped: those
    of all sizes are built together, once all are known.
    """
    raced = []
    for part in parts:
        result = _raced(planner, part, seconds, refining)
        if len(parts) > 1:
            result = replace(result, winner=replace(result.winner, executable=None))
        raced.append(result)
    return raced


def _raced(planner: Planner, part: Part, seconds: float, refining: Refining | None) -> "Raced":
    """Build and race the plans for a part of a model, and refine the winner if that is wanted."""
    specs, backend_of, backends = planner.specs, planner.backend_of, planner.backends
    with planner.planned(part) as planned:
        planner.watch("build", planned.counts)
        plans = contenders_of(part, planned.plans, specs[0].target, backend_of, backends)
        contenders = list(plans)
        planner.watch("race", planned.counts)
        winner, documents = race(part, contenders, specs, seconds)
        del contenders  # They hold the weights of the model.
        report = None
        if refining and planned.space:
            planner.watch("refine", planned.counts)
            refiner = Refiner(part, planned.space, specs, backend_of, backends, refining)
            winner, more, report = refiner.refined(winner, documents)
            documents += more
    return Raced(part, planned, winner, documents, report)


def built_and_verified(
    model: Any,
    name: str,
    raced: Sequence["Raced"],
    specs: Sequence[FusionSpec],
    backend_of: BackendOf,
    backends: Sequence[Backend],
    watch: Callable[[str, Counts], None],
    lock: Lock | None = None,
) -> Compiled:
    """Build the plans that won, if that is not done yet, and verify them."""
    counts = raced[0].planned.counts
    executable, calls = raced[0].winner.executable, [raced[0].winner.calls]
    if executable is None:
        watch("build", counts)
        plans = [(each.part, each.plan) for each in raced]
        executable, calls = built(plans, specs[0].target, backend_of, backends)
    watch("verify", counts)
    races = [
        each.document(name, verified(model, each.part, entry, called))
        for each, entry, called in zip(raced, executable.entries(), calls, strict=True)
    ]
    report = CompileDocument(
        model=name,
        **dict(races[0]),
        sizes=[
            SizeDocument(sizes=dict(each.part.sizes), **dict(race))
            for each, race in zip(raced[1:], races[1:], strict=True)
        ],
    )
    winners = [(each.winner.name, each.plan) for each in raced]
    parts = [each.part for each in raced]
    costs = [each.planned.costs for each in raced]

    def locked() -> Lock:
        return lock or Lock.of(parts, winners, specs, backend_of, costs)

    return Compiled(executable, raced[0].plan, report, locked)


@dataclass(frozen=True, slots=True)
class Raced:
    """The race of the plans for one part of a model."""

    part: Part
    planned: Planned
    winner: Contender
    contenders: Sequence[ContenderDocument]
    refinement: RefinementDocument | None = None

    @property
    def plan(self) -> Plan:
        assert self.winner.plan is not None
        return self.winner.plan

    def document(self, model: str, verification: VerificationDocument) -> RaceDocument:
        measurements = measurements_of(self.planned.counts)
        return RaceDocument(
            chosen=self.winner.name,
            plan=PlanDocument.of(model, self.plan, measurements, timed_sizes(self.part)),
            contenders=list(self.contenders),
            refinement=self.refinement,
            verification=verification,
            measurements=measurements,
            launch=dict(self.planned.launch),
        )
