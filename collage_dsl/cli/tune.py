"""`collage tune`: try schedules for kernels of a model, and keep them."""

from pathlib import Path

from collage_dsl.cli.answer import answer
from collage_dsl.cli.cost_store import check_costs
from collage_dsl.cli.graphs import onnx_model
from collage_dsl.cli.models import Request, targets_of
from collage_dsl.cli.progress import progress_on_stderr
from collage_dsl.cli.shapes import parse_shapes
from collage_dsl.cost import only
from collage_dsl.cost.store import default_store_path
from collage_dsl.engine.tune import TuningOptions
from collage_dsl.engine.tune_model import TunedKernel, tune_model
from collage_dsl.measuring.elsewhere import Elsewhere
from collage_dsl.report.documents import VariantDocument
from collage_dsl.report.tuning import TriedDocument, TunedDocument, TuneDocument, tune_text


def show_tuned(request: Request, at: str | None, trials: int | None, output_format: str) -> None:
    """Tune the kernels of a model, or the one that has the node `at`."""
    check_costs(request.costs, request.store)
    with progress_on_stderr() as now:
        options = TuningOptions(
            request.records, trials, budget=request.tuning_budget, watch=now.tried
        )
        found = tune_model(
            onnx_model(request.model),
            targets_of(request),
            at=at,
            options=options,
            cost=only(request.costs) if request.costs else None,
            store=request.store,
            shapes=parse_shapes(request.shapes),
            timeout=request.timeout,
            memory=request.memory_bytes,
            elsewhere=Elsewhere(request.tracker, request.key, request.scheduler),
            allow_extern=request.allow_extern,
            strategy=request.strategy,
            prove=request.prove,
            watch=now.watch,
            reporter=now,
        )
    path: Path = options.path(request.store or default_store_path())
    document = TuneDocument(
        model=str(request.model), records=str(path), kernels=[_document(each) for each in found]
    )
    answer(document, tune_text(document), output_format)


def _document(kernel: TunedKernel) -> TunedDocument:
    candidate, tuned = kernel.candidate, kernel.tuned
    graph, inside = candidate.graph, candidate.sub_graph.inside
    return TunedDocument(
        target=candidate.target,
        label=candidate.label,
        nodes=[node.name for i, node in enumerate(graph.nodes) if inside >> i & 1],
        function=tuned.place.function,
        trials=len(tuned.trials),
        new=tuned.new,
        variants=[VariantDocument.of(each) for each in kernel.variants],
        log=[TriedDocument.of(each) for each in tuned.trials],
    )
