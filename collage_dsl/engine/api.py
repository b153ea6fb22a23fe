"""The public functions `compile` and `realize`, which need TVM."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from math import inf
from pathlib import Path
from typing import Any

from collage_dsl.argument_types import with_checked_types
from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import known
from collage_dsl.backends.tvm_target import kernel_target
from collage_dsl.cost import Copies, CostSources
from collage_dsl.cost.store import default_store_path
from collage_dsl.engine.compile import (
    Compiled,
    backends_here,
    built_and_verified,
    check_names,
    frozen_parts,
    raced_parts,
)
from collage_dsl.engine.durations import seconds_of
from collage_dsl.engine.lock import Lock, building_from_lock
from collage_dsl.engine.planning import Planner
from collage_dsl.engine.refine import Method, Refining
from collage_dsl.engine.sizes import WantedSizes, parts_of
from collage_dsl.engine.specs import specs_of
from collage_dsl.engine.steps import solver
from collage_dsl.engine.tune import TuningOptions, Watch
from collage_dsl.engine.verified import drawn
from collage_dsl.frontend.onnx_model import Shapes
from collage_dsl.graph.arrays import Array
from collage_dsl.measuring.counts import Counts
from collage_dsl.measuring.elsewhere import Elsewhere
from collage_dsl.realization.partition import realize as realize_kernels
from collage_dsl.search import NO_REPORTER, Plan, Reporter, Strategy


@with_checked_types()
def realize(plan: Plan, *, backends: Sequence[Backend] = ()) -> Any:
    """
    The Relax `IRModule` of `plan`, before lowering: one function for each distinct kernel, and a
    function that calls them. `collage.lowering()` lowers it, in any process.

    `backends` come before the installed ones. Raises ValueError if a constant of the plan's graph
    has no value.
    """
    default = kernel_target(plan.home) if plan.home else None
    return realize_kernels(plan.graph, plan.candidates, known(backends), default)


@with_checked_types(
    *("model", "targets", "cost", "shapes", "sizes", "inputs", "strategy", "frozen"),
    *("refine", "budget", "tried", "executor", "watch", "reporter"),
)
def compile(  # noqa: A001 (collage.compile is the contract)
    model: Any,
    targets: Sequence[Any],
    *,
    name: str | None = None,
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
    Compile `model`, an ONNX file, a `ModelProto` or what `torch.export.export` gives, for
    `targets`. A target is a spec; a string as for the option `-t` (`"FILE"`, `"FILE#TARGET"` or
    the name of a shipped spec); or a TVM target, whose specs `gather` finds.

        exe = collage.compile("model.onnx", targets=["native", "onnxruntime"])
        exe.run({"x": array})

    The best plans over all targets, as many as `plans` says, and that of each target alone are
    built and run in turn; the fastest is kept. Each of its kernels, and the whole, is compared
    with onnxruntime on several draws of random inputs. `inputs` are real ones, to race the plans on
    and to compare first. The report calls the model `name`.

    `strategy` is how plans are searched for. Kernels that will probably make no plan cheaper,
    judged by those that were measured, are not measured, unless the search shall `prove` that no
    plan is cheaper. The sources `cost` are asked in turn what a kernel costs; what none of them
    knows is measured. A kernel that is not built and timed within `timeout` seconds and `memory`
    bytes (by default half of the memory of the machine) is not used. Values are on the device of
    the first target; kernels on others need `copies`, what it costs to copy a tensor between two
    devices.

    `backends` make kernels and say what they support. They come before those that are installed,
    also for `gather` and `op_predicate`. `allow_extern` lets predicates of the specs run host code;
    without it such a predicate raises `PredicateError`.

    `shapes` gives shapes of inputs, in place of those in the model; a dimension with a name has any
    size. `sizes` gives sizes of such dimensions: for each combination of them there is also a plan
    of its own, all in one executable, which chooses by the shapes that come in.

        compile(model, targets, shapes={"x": ("n", 3, 224, 224)}, sizes={"n": (1, 8)})

    With `refine="evolutionary"`, other plans are made of the best ones, built and run, for a
    `budget` of seconds (or `"10m"`, `"1h"`), which is divided evenly among all sizes. The winner of
    the race stays unless a plan is faster for certain. What was run is kept in the folder
    `refine_state` (by default `refinements` beside the store), so that the next call goes on.
    Chance depends on `seed`.

    `frozen` is the lock of an earlier compilation of this model for these targets. The same kernels
    are built and verified then; nothing is measured or raced.

    Kernels of a target that says `tune` are tuned, in `tuning_budget` seconds at the most.
    `records` is the file with the schedules that tuning has found, by default beside `store`. They
    are used whether or not a target says `tune`. `tried` hears of each schedule that is tried.

    Kernels are timed on the devices with the `key` at the `tracker` (`"HOST:PORT"`), and built by
    any `executor`, or by the Dask cluster at the address `scheduler` (docs/fleet.md). The race and
    the verification are here all the same.

    `watch` hears the name of each step and the kernels counted, `reporter` what the search for each
    plan explores and prices.

    Raises `RuleError` for a spec with errors, `FrontendError` for a model that cannot be read,
    `UncoveredError` for one with a call that no target can run, `LockError` for the lock of another
    compilation, `RemoteError` for devices with another processor, and `VerificationError` if the
    result is wrong.
    """
    solver(strategy)  # Refuse now a strategy that does not exist.
    _check_options(plans, refine, budget, race_seconds, frozen)
    lock = Lock.load(frozen) if isinstance(frozen, str | Path) else frozen
    specs = specs_of(targets, backends)
    check_names(specs)
    backend_of = backends_here(specs, backends)
    name = name or (str(model) if isinstance(model, str | Path) else "model")
    watch("import", Counts())
    parts = parts_of(model, shapes, sizes or {}, inputs)
    parts = [drawn(model, part) for part in parts]  # Refuses what could not be verified at the end.
    if lock is not None:
        with building_from_lock():
            found = frozen_parts(lock, parts, specs, backend_of)
            return built_and_verified(model, name, found, specs, backend_of, backends, watch, lock)
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
    found = raced_parts(planner, parts, race_seconds, refining)
    return built_and_verified(model, name, found, specs, backend_of, backends, watch)


def _check_options(
    plans: int,
    refine: str | None,
    budget: float | str,
    race_seconds: float,
    frozen: str | Path | Lock | None,
) -> None:
    if refine is not None and frozen is not None:
        raise ValueError("what is frozen cannot be refined: give `frozen` or `refine`")
    if not isinstance(frozen, str | Path | Lock | None):
        said = "must be a path or a Lock"
        raise TypeError(f"`frozen` of `compile` {said}, not {type(frozen).__name__}")
    if plans < 1:
        raise ValueError(f"at least 1 plan is raced, not {plans}")
    if refine not in (None, "evolutionary"):
        raise ValueError(f"`refine` is 'evolutionary' or None, not {refine!r}")
    seconds_of(budget)
    if not 0 < race_seconds < inf:
        raise ValueError(f"`race_seconds` are above 0, and finite, not {race_seconds}")
