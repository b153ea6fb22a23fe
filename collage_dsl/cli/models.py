"""`collage plan`, `compile` and `bench`: the commands that run the four steps."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path

from collage_dsl.cli.answer import answer, write_picture
from collage_dsl.cli.arrays import read_arrays
from collage_dsl.cli.cost_store import check_costs
from collage_dsl.cli.failure import CommandError
from collage_dsl.cli.graphs import onnx_model
from collage_dsl.cli.progress import Now, progress_on_stderr
from collage_dsl.cli.shapes import parse_shapes, parse_sizes
from collage_dsl.cli.targets import load_targets
from collage_dsl.cost import CostFunction, only
from collage_dsl.cost.sources import MEASURED
from collage_dsl.cost.store import default_store_path
from collage_dsl.engine import api
from collage_dsl.engine.compile import Compiled, backends_of
from collage_dsl.engine.costs import Pricing, with_provenance
from collage_dsl.engine.planning import measurements_of
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.refine import Method
from collage_dsl.engine.sizes import Part, parts_of, timed_sizes
from collage_dsl.engine.steps import MIXED, searched
from collage_dsl.engine.ties import without_ties
from collage_dsl.engine.tune import TuningOptions, existing_records
from collage_dsl.engine.verified import timed
from collage_dsl.graph import Graph
from collage_dsl.graph.arrays import Array
from collage_dsl.measuring.elsewhere import Elsewhere
from collage_dsl.measuring.memory import GIB
from collage_dsl.printable import printable
from collage_dsl.realization.saving import check_writable
from collage_dsl.report.documents import PlanDocument
from collage_dsl.report.picture import plan_picture
from collage_dsl.report.text import compile_text, plan_text
from collage_dsl.rules import FusionSpec
from collage_dsl.search import Plan, Reporter, Strategy


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments that all commands which compile a model share."""

    model: Path
    targets: tuple[str, ...]
    shapes: tuple[str, ...] = ()
    store: Path | None = None
    num_cores: int = 1
    timeout: float = 60
    allow_extern: bool = False
    strategy: Strategy = "auto"
    prove: bool = False
    inputs: Path | None = None
    max_candidates: int | None = None
    sizes: tuple[str, ...] = ()
    frozen: Path | None = None
    tracker: str | None = None
    key: str | None = None
    scheduler: str | None = None
    memory: float | None = None
    costs: tuple[str, ...] = ()
    plans: int = 3
    refine: Method | None = None
    budget: float = 600
    refine_state: Path | None = None
    seed: int = 0
    records: Path | None = None
    tuning_budget: float = inf

    @property
    def memory_bytes(self) -> int | None:
        """The bytes that a kernel may take; None for the usual limit."""
        return None if self.memory is None else int(self.memory * GIB)


def show_plan(request: Request, output_format: str, picture: Path | None = None) -> None:
    """Choose the cheapest kernels for the model, and show them; draw them to a `picture` too."""
    specs = targets_of(request)
    check_costs(request.costs, request.store)
    inputs = _inputs(request)
    model = onnx_model(request.model)
    (part,) = parts_of(model, parse_shapes(request.shapes), {}, inputs)
    part = timed(model, part)
    with progress_on_stderr() as now, ExitStack() as stack:
        pricing = _pricing(request, part, specs, now, stack)
        plan = _chosen(request, part.graph, specs, now, pricing)
        measured = pricing.used
        counts = measurements_of(measured.counts) if measured else None
        plan = pricing.with_variants(plan)
    if picture:
        write_picture(picture, plan_picture(plan))
    document = PlanDocument.of(str(request.model), plan, counts, timed_sizes(part))
    answer(document, plan_text(document), output_format)


def _inputs(request: Request) -> dict[str, Array] | None:
    """The arrays of the file of inputs, if there is one."""
    return read_arrays(request.inputs) if request.inputs else None


def targets_of(request: Request) -> tuple[FusionSpec, ...]:
    """The specs of the targets, as `load_targets` finds them."""
    return load_targets(
        request.targets,
        request.num_cores,
        allow_extern=request.allow_extern,
        max_candidates=request.max_candidates,
    )


def _chosen(
    request: Request,
    graph: Graph,
    specs: Sequence[FusionSpec],
    reporter: Reporter,
    pricing: Pricing,
) -> Plan:
    """The cheapest plan among that of all targets together and those of each target alone."""
    cost = pricing.sources(only(request.costs) if request.costs else MEASURED)

    def plans_by_name(price: CostFunction) -> dict[str, Plan | str]:
        return searched(
            graph,
            specs,
            price,
            lookup(allow_extern=request.allow_extern),
            strategy=request.strategy,
            hints=pricing.hints(cost, prove=request.prove),
            reporter=reporter,
        ).plans

    settle = pricing.settling(cost)
    plans, _ = without_ties(plans_by_name, lambda plans: plans[MIXED], cost, settle)
    found = (plan for plan in plans.values() if isinstance(plan, Plan))
    best = min(found, key=lambda plan: (plan.cost, -plan.priority, len(plan.kernels)))
    return with_provenance(best, cost)


def _pricing(
    request: Request, part: Part, specs: Sequence[FusionSpec], now: Now, stack: ExitStack
) -> Pricing:
    """What makes the sources of costs; `now` hears of what is measured."""
    store = request.store or default_store_path()
    pricing = Pricing(
        stack,
        store=store,
        sizes=timed_sizes(part),
        options={
            "records": existing_records(TuningOptions(request.records).path(store), stack),
            "timeout": request.timeout,
            "memory": request.memory_bytes,
            "given": part.inputs,
            "watch": lambda counts: now.watch("measure", counts),
        },
        fleet=Elsewhere(request.tracker, request.key, request.scheduler).fleet,
    )
    if not request.costs or MEASURED in request.costs:
        pricing.backend_of = backends_of(specs)
    return pricing


def compile_to(request: Request, folder: Path | None, output_format: str) -> None:
    """Compile the model, and save it if `folder` is given."""
    if folder:
        check_writable(folder)
    compiled = compiled_model(request)
    if folder:
        compiled.save(folder)
    written = f"written to {printable(str(folder))}\n" if folder else ""
    answer(compiled.report, compile_text(compiled.report) + written, output_format)


_FOR_CHOOSING = (
    *("strategy", "prove", "costs", "tracker", "key", "scheduler", "tuning_budget", "plans"),
    *("refine", "budget", "refine_state"),
)
"""The options that say how kernels are chosen, measured and raced."""


def _check_frozen(request: Request) -> None:
    """Raise `CommandError` where an option is given that has no effect with `--frozen`."""
    for option in fields(request):
        if option.name in _FOR_CHOOSING and getattr(request, option.name) != option.default:
            name = option.name.replace("_", "-")
            raise CommandError(
                f"--frozen and --{name} cannot be used together: with --frozen, nothing is chosen, "
                "measured or raced"
            )


def compiled_model(request: Request) -> Compiled:
    """Compile the model of `request`, with progress on stderr."""
    if request.frozen:
        _check_frozen(request)
    specs = targets_of(request)
    check_costs(request.costs, request.store)
    inputs = _inputs(request)
    with progress_on_stderr() as now:
        return api.compile(
            onnx_model(request.model),
            specs,
            name=str(request.model),
            store=request.store,
            shapes=parse_shapes(request.shapes),
            sizes=parse_sizes(request.sizes),
            inputs=inputs,
            timeout=request.timeout,
            memory=request.memory_bytes,
            allow_extern=request.allow_extern,
            strategy=request.strategy,
            prove=request.prove,
            cost=only(request.costs) if request.costs else None,
            plans=request.plans,
            refine=request.refine,
            budget=request.budget,
            refine_state=request.refine_state,
            seed=request.seed,
            frozen=request.frozen,
            records=request.records,
            tuning_budget=request.tuning_budget,
            tried=now.tried,
            tracker=request.tracker,
            key=request.key,
            scheduler=request.scheduler,
            watch=now.watch,
            reporter=now,
        )
