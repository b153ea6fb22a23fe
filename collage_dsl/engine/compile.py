"""Compile a model: plan, build and race several plans, keep the fastest, and verify it."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import BackendOf, installed
from collage_dsl.backends.tvm import kernel_target, num_cores
from collage_dsl.cost import Copies, CostSources, CostStore, Infeasible, first_known
from collage_dsl.cost.store import default_store_path
from collage_dsl.engine.devices import DefaultDevice
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.steps import MIXED, plans_of
from collage_dsl.engine.variants import with_variants
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.frontend.onnx_model import Shapes
from collage_dsl.frontend.reference import reference_session
from collage_dsl.graph import CandidateKernel, Graph, Toolchain
from collage_dsl.measuring.bounds import lower_bound
from collage_dsl.measuring.copies import CopyCost
from collage_dsl.measuring.cost import Counts, MeasuredCost, supported
from collage_dsl.measuring.timing import interleaved, low
from collage_dsl.realization.crossing import devices_of
from collage_dsl.realization.draws import NoDraw, draws_of, sizes_of
from collage_dsl.realization.executable import ModelExecutable, arrays_of
from collage_dsl.realization.lower import build
from collage_dsl.realization.partition import KernelCall, realized
from collage_dsl.realization.saving import PLAN, REPORT, save
from collage_dsl.realization.signature import Signature
from collage_dsl.realization.verify import (
    Finding,
    Verification,
    VerificationError,
    exact_runner,
    failed,
    runner,
    verify,
)
from collage_dsl.report.documents import (
    CandidateDocument,
    CompileDocument,
    ContenderDocument,
    ErrorDocument,
    KernelErrorDocument,
    LatencyDocument,
    MeasurementsDocument,
    PlanDocument,
    VerificationDocument,
    shares,
)
from collage_dsl.rules import FusionSpec
from collage_dsl.search import NO_REPORTER, Plan, Reporter, Strategy
from collage_dsl.targets.attach import TargetError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Contender:
    """A plan that was built for the race, or the reason why it could not be built."""

    name: str
    plan: Plan | None
    executable: ModelExecutable | None
    reason: str = ""
    calls: tuple[KernelCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Compiled:
    """The fastest executable of the race, the plan that it was built from, and a report."""

    executable: ModelExecutable
    plan: Plan
    report: CompileDocument

    def run(
        self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The outputs by name; see `ModelExecutable.run`."""
        return self.executable.run(inputs, out)

    def save(self, folder: str | Path) -> None:
        """Write executable, plan and report to `folder`; see `saving.save`."""
        documents = {
            PLAN: self.report.plan.model_dump_json(indent=2),
            REPORT: self.report.model_dump_json(indent=2),
        }
        save(self.executable, Path(folder), documents)


def backends_of(specs: Sequence[FusionSpec], given: Sequence[Backend] = ()) -> BackendOf:
    """
    The backend of each toolchain in `specs`. Raises the same errors as `find_backend`, and
    `TargetError` for a target that no backend can build kernels for.
    """
    find = installed(given)
    for spec in specs:
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
    if MIXED in names:
        raise TargetError(f"a target cannot be named `{MIXED}`: reports call the mixed plan so")


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
    inputs: Mapping[str, Array] | None = None,
    timeout: float = 60,
    race_seconds: float = 2,
    allow_extern: bool = False,
    strategy: Strategy = "auto",
    watch: Callable[[str, Counts], None] = lambda step, counts: None,
    reporter: Reporter = NO_REPORTER,
) -> Compiled:
    """
    Compile an ONNX model (a path or a `ModelProto`) for `specs`.

    The cheapest plan over all targets and that of each target alone are built and run in
    turn; the fastest is kept. Each of its kernels, and the whole, is compared with onnxruntime on
    several draws of random inputs; a difference raises `VerificationError`. `inputs` are real
    ones, to race the plans on and to compare first. `watch` hears the name of each step and the
    kernels counted, `reporter` what the search for each plan explores and prices.
    `backends` come before those that are installed: they make kernels, and say what they support.
    `allow_extern` lets predicates of the specs run host code. `strategy` is
    how plans are searched for. The sources `cost` are asked in turn what a kernel costs; what
    none of them knows is measured. Values are on the device of the first spec's target; kernels
    on others need `copies`, what it costs to copy a tensor between two devices.
    """
    check_names(specs)
    backend_of = backends_of(specs, backends)
    for spec in specs:
        backend_of(spec.target).prepare()
    watch("import", Counts())
    graph = from_onnx(model, shapes=shapes)
    arrays = None if inputs is None else arrays_of(Signature.of(graph).inputs, inputs)
    _check_drawn(graph, arrays)
    reference_session(model, shapes)  # refuse now a model that could not be verified at the end
    with ExitStack() as stack:

        @cache
        def measuring() -> MeasuredCost:
            costs = stack.enter_context(CostStore(store or default_store_path()))
            return stack.enter_context(
                MeasuredCost(
                    backend_of,
                    costs,
                    timeout=timeout,
                    sizes=sizes_of(graph),
                    given=arrays,
                    watch=lambda c: watch("measure", c),
                )
            )

        given = () if cost is None else (supported(first_known(cost), backend_of),)
        price = first_known([*given, lambda kernel: measuring()(kernel)])
        code = lookup(allow_extern=allow_extern, backends=backends)
        bound = None if given else lower_bound(measuring())
        home = specs[0].target
        default = DefaultDevice(home.kind, copies is not None)
        copying = CopyCost(copies, home.kind, backend_of) if copies else None
        whole = copying.added_to(price) if copying else price
        ahead = None if given else measuring().ahead
        plans = plans_of(graph, specs, whole, code, strategy, bound, reporter, default, ahead)
        if copying:
            plans = {name: _with_copies(plan, copying, home) for name, plan in plans.items()}
        measured = measuring() if measuring.cache_info().currsize else None
        if measured:
            plans = {name: _with_variants(plan, measured) for name, plan in plans.items()}
        counts = measured.counts if measured else Counts()
        launch = _launches(specs, backend_of, measured)
    watch("build", counts)
    contenders = list(_contenders(graph, plans, home, backend_of, backends))
    watch("race", counts)
    winner, documents = _race(graph, contenders, specs, race_seconds, arrays)
    watch("verify", counts)
    verification = _verified(model, shapes, graph, winner, arrays)
    assert winner.plan is not None
    assert winner.executable is not None
    measurements = measurements_of(counts)
    report = CompileDocument(
        model=name,
        chosen=winner.name,
        plan=PlanDocument.of(name, winner.plan, measurements),
        contenders=documents,
        verification=_verification_document(verification),
        measurements=measurements,
        launch=launch,
    )
    return Compiled(winner.executable, winner.plan, report)


def _check_drawn(graph: Graph, inputs: Mapping[str, Array] | None) -> None:
    """Refuse now a model that could not be run at the end: inputs of which none can be drawn."""
    try:
        next(draws_of(graph, inputs))
    except NoDraw as error:
        raise VerificationError(str(error)) from None


def _verification_document(verification: Verification) -> VerificationDocument:
    kernel, output = verification.kernel, verification.output
    return VerificationDocument(
        error=verification.error,
        tolerance=verification.tolerance,
        passed=verification.passed,
        kernel=_kernel_error(kernel) if kernel else None,
        output=ErrorDocument(**_error_of(output)) if output else None,
        draws=list(verification.draws),
        kernels=verification.kernels,
        unchecked=list(verification.unchecked),
    )


def _kernel_error(finding: Finding) -> KernelErrorDocument:
    assert finding.kernel is not None
    about = CandidateDocument.of(finding.kernel).model_dump(exclude={"constants"})
    return KernelErrorDocument(**_error_of(finding), **about)


def _error_of(finding: Finding) -> dict[str, Any]:
    return {
        "node": finding.node,
        "error": finding.error,
        "tolerance": finding.tolerance,
        "inputs": finding.draw,
    }


def measurements_of(counts: Counts) -> MeasurementsDocument:
    """`counts` in the form of a report."""
    return MeasurementsDocument(
        found=counts.found,
        measured=counts.measured,
        reused=counts.reused,
        infeasible=counts.infeasible,
        reasons=counts.reasons,
    )


def _launches(
    specs: Sequence[FusionSpec], backend_of: BackendOf, measured: MeasuredCost | None
) -> dict[str, float]:
    if measured is None:
        return {}
    costs = {spec.name: measured.launch(spec.target, backend_of(spec.target)) for spec in specs}
    return {name: cost for name, cost in costs.items() if not isinstance(cost, Infeasible)}


def _with_copies(plan: Plan | str, copying: CopyCost, home: Toolchain) -> Plan | str:
    """`plan`, which says what of its cost goes into copies."""
    if isinstance(plan, str):
        return plan
    kernels = []
    for kernel in plan.kernels:
        copies = copying(kernel.candidate)
        assert not isinstance(copies, Infeasible), copies.reason
        kernels.append(replace(kernel, copies=copies))
    return replace(plan, kernels=tuple(kernels), home=home)


def _with_variants(plan: Plan | str, measured: MeasuredCost) -> Plan | str:
    return plan if isinstance(plan, str) else with_variants(plan, measured)


def _contenders(
    graph: Graph,
    plans: Mapping[str, Plan | str],
    home: Toolchain,
    backend_of: BackendOf,
    backends: Sequence[Backend],
) -> Iterator[Contender]:
    """The contender of each plan. Plans of the same kernels have the same executable."""
    made: dict[frozenset[CandidateKernel], Contender] = {}
    for name, plan in plans.items():
        if isinstance(plan, str):
            yield Contender(name, None, None, plan)
            continue
        kernels = frozenset(plan.candidates)
        if kernels not in made:
            made[kernels] = _built(graph, name, plan, home, backend_of, backends)
        yield replace(made[kernels], name=name, plan=plan)


def _built(
    graph: Graph,
    name: str,
    plan: Plan,
    home: Toolchain,
    backend_of: BackendOf,
    backends: Sequence[Backend],
) -> Contender:
    default = kernel_target(plan.home) if plan.home else None
    found = realized(graph, plan.candidates, backend_of, default)
    module = found.module
    cores = max((num_cores(each.toolchain) for each in plan.candidates), default=1)
    signature = Signature.of(graph, devices_of(module, home.kind), cores)
    executable = ModelExecutable(build(module, backends=backends), signature)
    return Contender(name, plan, executable, calls=found.calls)


def _race(
    graph: Graph,
    contenders: Sequence[Contender],
    specs: Sequence[FusionSpec],
    seconds: float,
    given: Mapping[str, Array] | None,
) -> tuple[Contender, list[ContenderDocument]]:
    """The fastest contender (of equally fast ones, the first), and the report of all."""
    inputs = list(next(draws_of(graph, given)).inputs.values())
    built = {id(c.executable): c.executable for c in contenders if c.executable}
    runners = {key: _runner(executable, inputs) for key, executable in built.items()}
    cores = max(num_cores(spec.target) for spec in specs)
    budget = seconds * len(runners)
    times = dict(
        zip(runners, interleaved(list(runners.values()), cores, budget=budget), strict=True)
    )
    running = (c for c in contenders if c.executable)
    winner = min(running, key=lambda c: low(times[id(c.executable)]))
    return winner, [_document(c, times.get(id(c.executable))) for c in contenders]


def _runner(executable: ModelExecutable, inputs: Sequence[Array]) -> Callable[[], object]:
    names = [value.name for value in executable.signature.inputs]
    tensors = executable.tensors(dict(zip(names, inputs, strict=True)))
    return lambda: executable.call(tensors)


def _document(contender: Contender, times: list[float] | None) -> ContenderDocument:
    plan = contender.plan
    return ContenderDocument(
        name=contender.name,
        targets=shares(plan) if plan else {},
        estimated=plan.cost if plan else None,
        measured=latency(times) if times else None,
        reason=contender.reason or None,
    )


def latency(times: list[float]) -> LatencyDocument:
    """A series of times as a low percentile and the distance between its quartiles."""
    lower, _, upper = statistics.quantiles(times, n=4)
    return LatencyDocument(seconds=low(times), spread=upper - lower, runs=len(times))


def _verified(
    model: Any,
    shapes: Shapes | None,
    graph: Graph,
    winner: Contender,
    inputs: Mapping[str, Array] | None,
) -> Verification:
    """Raises `VerificationError`."""
    assert winner.executable is not None
    reference = runner(str(model) if isinstance(model, str | Path) else model, shapes)
    draws = draws_of(graph, inputs)

    def exact(inputs: Mapping[str, Array]) -> Iterable[Mapping[str, Array]]:
        return exact_runner(model)(inputs)

    verification = verify(winner.executable, reference, exact, graph, winner.calls, draws)
    if not verification.passed:
        raise failed(verification)
    return verification
