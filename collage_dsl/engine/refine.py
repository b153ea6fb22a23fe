"""Continue from the winner of the race: build and run more plans, and keep one that is faster."""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import BackendOf
from collage_dsl.backends.tvm import Tvm
from collage_dsl.backends.tvm_target import machine_target
from collage_dsl.cost import Cost, Infeasible
from collage_dsl.engine.lock import model_hash
from collage_dsl.engine.planning import Space
from collage_dsl.engine.race import (
    Contender,
    Series,
    alternated,
    built,
    document,
    latency,
    margin_of,
)
from collage_dsl.engine.refined_plans import read_state, write_state
from collage_dsl.engine.sizes import Part
from collage_dsl.engine.steps import REFINED
from collage_dsl.graph import CandidateKernel
from collage_dsl.graph.arrays import Array
from collage_dsl.language import to_text
from collage_dsl.measuring.processor import cpu_name
from collage_dsl.realization.errors import BuildError
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.partition import KernelCall
from collage_dsl.report.documents import ContenderDocument, RefinementDocument
from collage_dsl.rules import FusionSpec
from collage_dsl.search import (
    Breeding,
    Genome,
    Plan,
    Problem,
    Refined,
    Times,
    refine,
)

Method = Literal["evolutionary"]
"""How plans are refined. There is one way."""

_GAIN = 0.01
"""
A refined plan is kept only if it saves at least this part. Where code lies in memory can make a
smaller difference.
"""

_FINAL = 4
"""The factor by which the final race is longer than another comparison."""


@dataclass(frozen=True, slots=True)
class Refining:
    """
    How long to refine, in seconds; the folder with the states; how many seconds each plan runs in a
    comparison; and the seed.
    """

    method: Method
    budget: float
    folder: Path
    seconds: float
    number: int = 0


@dataclass(slots=True)
class Refiner:
    """Refines the winner of a race for a part of a model."""

    part: Part
    space: Space
    specs: Sequence[FusionSpec]
    backend_of: BackendOf
    backends: Sequence[Backend]
    refining: Refining
    _problem: Problem = field(init=False)
    _built: dict[Genome, tuple[ModelExecutable, tuple[KernelCall, ...]]] = field(
        default_factory=dict, init=False
    )

    def __post_init__(self) -> None:
        self._problem = self.space.regions.priced()

    def refined(
        self, winner: Contender, raced: Sequence[ContenderDocument] = ()
    ) -> tuple[Contender, list[ContenderDocument], RefinementDocument]:
        """
        The plan that is kept, and the report. It is the winner of the race, or a plan that is
        faster for certain. The plans that were `raced` are not built and run again.
        """
        seeds = self._seeds(winner)
        if winner.executable:
            self._built[seeds[0].candidates] = winner.executable, winner.calls
        made_for = _made_for(self.part, self.specs, self.backend_of)
        path = self.refining.folder / f"{made_for}.json"
        before = read_state(path, made_for, self._problem, self.specs)
        known = self._raced(before, winner.name, raced)
        finals: list[tuple[Series, Series]] = []
        found = self._found(seeds, known, finals, lambda times: write_state(path, made_for, times))
        is_kept = found.plan is not seeds[0]
        final = (finals[-1] if is_kept else finals[0]) if finals else None
        report = self._report(len(before), len(known), found, is_kept, final, path)
        if not is_kept or final is None:
            return winner, [], report
        executable, calls = self._executable(found.plan)
        plan = self.space.finished(found.plan)
        contender = Contender(REFINED, plan, executable, calls=calls)
        said = document(contender, final[1], final, margin_of(self.specs))
        return contender, [said], report

    def _raced(self, known: Times, winner: str, raced: Sequence[ContenderDocument]) -> Times:
        """The known times, and those from the race if they can be compared with these."""
        first = self.space.plans[winner].candidates
        if known and first not in known:
            return known
        unit = known.get(first, 1.0)
        times = {each.name: each.measured.seconds for each in raced if each.measured}
        if isinstance(unit, Infeasible) or winner not in times:
            return known or {first: 1.0}
        ratios = {
            self.space.plans[name].candidates: unit * time / times[winner]
            for name, time in times.items()
        }
        return {first: unit, **ratios, **known}

    def _found(
        self,
        seeds: Sequence[Plan],
        known: Times,
        finals: list[tuple[Series, Series]],
        keep: Callable[[Times], None],
    ) -> Refined:
        """Refine the first seed; `finals` gets the times of final races, `keep` those of all."""
        deadline = time.monotonic() + self.refining.budget
        times = dict(known)

        def beats(start: Plan, plan: Plan) -> bool:
            before, after = self._alternated(start, plan, _FINAL * self.refining.seconds)
            finals.append((before, after))
            return after.is_less(before) and after.low <= (1 - _GAIN) * before.low

        def heard(genome: Genome, cost: Cost) -> None:
            times[genome] = cost
            keep(times)

        return refine(
            Breeding(self._problem, self._may_merge),
            seeds,
            self._race,
            beats=beats,
            is_over=lambda: time.monotonic() >= deadline,
            known=known,
            number=self.refining.number,
            heard=heard,
        )

    def _report(
        self,
        before: int,
        known: int,
        found: Refined,
        is_kept: bool,
        final: tuple[Series, Series] | None,
        path: Path,
    ) -> RefinementDocument:
        new = list(found.times.values())[known:]
        return RefinementDocument(
            method=self.refining.method,
            budget=self.refining.budget,
            run=len(new),
            known=before,
            failed=sum(isinstance(cost, Infeasible) for cost in new),
            complete=found.is_complete,
            kept=is_kept,
            before=latency(list(final[0].times)) if final else None,
            after=latency(list(final[1].times)) if final else None,
            state=str(path),
        )

    def _seeds(self, winner: Contender) -> list[Plan]:
        """The plans as they were searched for, that of the winner first."""
        first = self.space.plans[winner.name]
        return [first, *(each for each in self.space.plans.values() if each is not first)]

    def _may_merge(self, kernel: CandidateKernel) -> bool:
        may = self.space.regions.may_merge.get(kernel.target)
        return may is not None and may(kernel)

    def _race(self, best: Plan, plan: Plan) -> Cost:
        try:
            self._executable(plan)
        except BuildError as error:
            return Infeasible(str(error))
        before, after = self._alternated(best, plan, self.refining.seconds)
        slower = best if after.low < before.low else plan
        del self._built[slower.candidates]  # each holds the weights of the model
        return after.low / before.low

    def _alternated(self, one: Plan, other: Plan, seconds: float) -> list[Series]:
        executables = [self._executable(plan)[0] for plan in (one, other)]
        return alternated(self.part, executables, self.specs, seconds)

    def _executable(self, plan: Plan) -> tuple[ModelExecutable, tuple[KernelCall, ...]]:
        if plan.candidates not in self._built:
            finished = self.space.finished(plan)
            home = self.specs[0].target
            plans = [(self.part, finished)]
            executable, [calls] = built(plans, home, self.backend_of, self.backends)
            self._built[plan.candidates] = executable, calls
        return self._built[plan.candidates]


def _made_for(part: Part, specs: Sequence[FusionSpec], backend_of: BackendOf) -> str:
    """A name for the refinement of one model on one machine, with the inputs that it runs on."""
    backends = [*(backend_of(spec.target) for spec in specs), Tvm()]
    said: dict[str, object] = {
        "model": model_hash(part.graph),
        "sizes": dict(part.sizes),
        "targets": [to_text(spec) for spec in specs],
        "versions": sorted({f"{each.name} {each.version}" for each in backends}),
        "processors": [machine_target(spec.target) for spec in specs],
        "processor": cpu_name(),
    }
    if part.inputs is not None:
        said["inputs"] = {name: _hash_of(array) for name, array in part.inputs.items()}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]


def _hash_of(array: Array) -> str:
    content = f"{array.dtype} {array.shape} ".encode() + np.ascontiguousarray(array).tobytes()
    return hashlib.sha256(content).hexdigest()
