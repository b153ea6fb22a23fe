"""Compile a model: plan, build and race several plans, keep the fastest, and verify it."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from collage_dsl.argument_types import with_checked_types
from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import BackendOf, installed
from collage_dsl.backends.tvm_target import foreign, ignored
from collage_dsl.cost import Copies, CostSources
from collage_dsl.cost.store import default_store_path
from collage_dsl.engine.durations import seconds_of
from collage_dsl.engine.lock import Lock, building_from_lock
from collage_dsl.engine.planning import Planned, Planner, measurements_of
from collage_dsl.engine.race import Contender, built, contenders_of, race
from collage_dsl.engine.refine import Method, Refiner, Refining
from collage_dsl.engine.sizes import Part, WantedSizes, parts_of
from collage_dsl.engine.steps import is_of_all_targets, solver
from collage_dsl.engine.tune import TuningOptions, Watch
from collage_dsl.engine.verified import drawn, verified
from collage_dsl.frontend.onnx_model import Shapes
from collage_dsl.graph.arrays import Array
from collage_dsl.measuring.counts import Counts
from collage_dsl.measuring.elsewhere import Elsewhere
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
from collage_dsl.search import NO_REPORTER, Plan, Reporter, Strategy
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
        """Write the lock to a file, for `frozen` of `compile_model`."""
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


@with_checked_types(
    *("model", "specs", "cost", "shapes", "sizes", "inputs", "strategy", "frozen"),
    *("refine", "budget", "tried", "executor", "watch", "reporter"),
    called="compile",
)
def compile_model(
    model: Any,
    specs: Sequence[FusionSpec],
    *,
    name: str = "model",
    cost: CostSources | None = None,
    copies: Copies | None = None,
    store: str | Path | None = None,
    backends: Sequence[Backend] = (),
    shapes: Shapes | None = None,
    sizes: WantedSizes | None = None,
    inputs: Mapping[str, Array] | None = None,
    timeout: float = 60,
    memory: float | None = None,
    race_seconds: float = 2,
    allow_extern: bool = False,
    strategy: Strategy = "auto",
    prove: bool = False,
    plans: int = 3,
    refine: Method | None = None,
    budget: float | str = 600,
    refine_state: str | Path | None = None,
    seed: int = 0,
    frozen: str | Path | Lock | None = None,
    records: str | Path | None = None,
    tuning_budget: float = inf,
    tried: Watch = lambda label, count, trial: None,
    tracker: str | None = None,
    key: str | None = None,
    scheduler: str | None = None,
    executor: Executor | None = None,
    watch: Callable[[str, Counts], None] = lambda step, counts: None,
    reporter: Reporter = NO_REPORTER,
) -> Compiled:
    """
    Compile an ONNX model (a path or a `ModelProto`), or what PyTorch exported, for `specs`.

    The best plans over all targets, as many as `plans` says, and that of each target alone are
    built and run in turn; the fastest is kept. Each of its kernels, and the whole, is compared
    with onnxruntime on several draws of random inputs; a difference raises `VerificationError`.
    `inputs` are real ones, to race the plans on and to compare first. `watch` hears the name of
    each step and the kernels counted, `reporter` what the search for each plan explores and prices.
    A kernel that is not built and timed within `timeout` seconds and `memory` bytes (half of the
    memory of the machine, if nothing is said) is not used.
    `backends` come before those that are installed: they make kernels, and say what they support.
    `allow_extern` lets predicates of the specs run host code. `strategy` is
    how plans are searched for. Kernels that will probably make no plan cheaper, judged by those
    that were measured, are not measured, unless the search shall `prove` that no plan is cheaper.
    The sources `cost` are asked in turn what a kernel costs; what
    none of them knows is measured. Values are on the device of the first spec's target; kernels
    on others need `copies`, what it costs to copy a tensor between two devices.

    `shapes` gives shapes of inputs, in place of those in the model; a dimension with a name has any
    size. `sizes` gives sizes of such dimensions: for each combination of them there is also a plan
    of its own, all in one executable, which chooses by the shapes that come in.

        compile_model(model, specs, shapes={"x": ("n", 3, 224, 224)}, sizes={"n": (1, 8)})

    With `refine="evolutionary"`, other plans are made of the best ones, built and run, for a
    `budget` of seconds (or `"10m"`, `"1h"`), which is divided evenly among all sizes. The winner of
    the race stays unless a plan is faster for certain. What was run is kept in the folder
    `refine_state` (by default `refinements` beside the store), so that the next call goes on.
    Chance depends on `seed`.

    `frozen` is the lock of an earlier compilation of this model for these targets. The same kernels
    are built and verified then; nothing is measured or raced. Raises `LockError` for another lock.

    Kernels of a target that says `tune` are tuned, in `tuning_budget` seconds at the most.
    `records` is the file with the schedules that tuning has found, by default beside `store`. They
    are used whether or not a target says `tune`. `tried` hears of each schedule that is tried.

    Kernels are timed on the devices with the `key` at the `tracker` (`"HOST:PORT"`), and built by
    any `executor`, or by the Dask cluster at the address `scheduler` (docs/fleet.md). The race and
    the verification are here all the same: raises `RemoteError` where the devices have another
    processor.
    """
    if refine is not None and frozen is not None:
        raise ValueError("what is frozen cannot be refined: give `frozen` or `refine`")
    solver(strategy)  # Refuse now a strategy that does not exist.
    lock = Lock.load(frozen) if isinstance(frozen, str | Path) else frozen
    if not isinstance(lock, Lock | None):
        said = "must be a path or a Lock"
        raise TypeError(f"`frozen` of `compile` {said}, not {type(frozen).__name__}")
    check_names(specs)
    _check_options(plans, refine, budget, race_seconds)
    backend_of = backends_of(specs, backends)
    for spec in specs:
        if said := foreign(spec.target):
            raise TargetError(
                f"target `{spec.name}`: {said}. Plans are raced and verified here: compile on such "
                "a machine, or use `collage plan`"
            )
        backend_of(spec.target).prepare()
    watch("import", Counts())
    parts = parts_of(model, shapes, sizes or {}, inputs)
    parts = [drawn(model, part) for part in parts]  # Refuses what could not be verified at the end.
    if lock is not None:
        with building_from_lock():
            found = _frozen(lock, parts, specs, backend_of)
            return _built(model, name, found, specs, backend_of, backends, watch, lock)
    planner = Planner(
        specs=specs,
        backend_of=backend_of,
        backends=backends,
        cost=cost,
        copies=copies,
        store=store,
        timeout=timeout,
        memory=None if memory is None else int(memory),
        allow_extern=allow_extern,
        strategy=strategy,
        prove=prove,
        watch=watch,
        reporter=reporter,
        tuning=TuningOptions(records, budget=tuning_budget, watch=tried),
        count=plans,
        elsewhere=Elsewhere(tracker, key, scheduler, executor, is_raced=True),
    )
    refining = refine and Refining(
        refine,
        seconds_of(budget) / len(parts),
        Path(refine_state or Path(store or default_store_path()).parent / "refinements"),
        race_seconds / 2,
        seed,
    )
    raced = []
    for part in parts:
        result = _raced(planner, part, race_seconds, refining)
        if len(parts) > 1:  # Those of all sizes are built together, once all are known.
            result = replace(result, winner=replace(result.winner, executable=None))
        raced.append(result)
    return _built(model, name, raced, specs, backend_of, backends, watch)


def _check_options(
    plans: int, refine: str | None, budget: float | str, race_seconds: float
) -> None:
    if plans < 1:
        raise ValueError(f"at least 1 plan is raced, not {plans}")
    if refine not in (None, "evolutionary"):
        raise ValueError(f"`refine` is 'evolutionary' or None, not {refine!r}")
    seconds_of(budget)
    if not 0 < race_seconds < inf:
        raise ValueError(f"`race_seconds` are above 0, and finite, not {race_seconds}")


def _frozen(
    lock: Lock, parts: Sequence[Part], specs: Sequence[FusionSpec], backend_of: BackendOf
) -> list["_Raced"]:
    """The plans of a lock for the parts of a model, as winners of a race that nobody ran."""
    kept = lock.plans_for(parts, specs, backend_of)
    return [
        _Raced(part, Planned({by: plan}, Counts(), {}), Contender(by, plan, None), ())
        for part, (by, plan) in zip(parts, kept, strict=True)
    ]


def _raced(planner: Planner, part: Part, seconds: float, refining: Refining | None) -> "_Raced":
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
    return _Raced(part, planned, winner, documents, report)


def _built(
    model: Any,
    name: str,
    raced: Sequence["_Raced"],
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
class _Raced:
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
            plan=PlanDocument.of(model, self.plan, measurements),
            contenders=list(self.contenders),
            refinement=self.refinement,
            verification=verification,
            measurements=measurements,
            launch=dict(self.planned.launch),
        )
