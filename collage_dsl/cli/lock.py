"""`collage freeze` and `collage replay`: keep which kernels were chosen, and choose again."""

from pathlib import Path

from collage_dsl.cli.answer import answer
from collage_dsl.cli.failure import WRONG, writing
from collage_dsl.cli.graphs import onnx_model
from collage_dsl.cli.models import Request, compiled_model, targets_of
from collage_dsl.cli.progress import progress_on_stderr
from collage_dsl.cli.shapes import parse_shapes, parse_sizes
from collage_dsl.engine.lock import Lock
from collage_dsl.engine.replay import Replayed, replay
from collage_dsl.printable import printable
from collage_dsl.report.documents import PlanDocument, ReplayDocument, ReplayedDocument
from collage_dsl.report.text import compile_text, replay_text
from collage_dsl.scratch import replacement
from collage_dsl.search import Plan


def freeze_to(request: Request, file: Path, output_format: str) -> None:
    """Compile the model, and write the lock of its kernels to a file."""
    compiled = compiled_model(request)
    with writing(file), replacement(file) as new:
        new.write_text(compiled.lock().text(), "utf-8")
    written = f"written to {printable(str(file))}\n"
    answer(compiled.report, compile_text(compiled.report) + written, output_format)


def show_replay(request: Request, file: Path, output_format: str) -> int:
    """Search again with the costs of a lock; the exit code is 1 where kernels are others."""
    lock, specs = Lock.load(file), targets_of(request)
    with progress_on_stderr() as now:
        found = replay(
            onnx_model(request.model),
            specs,
            lock,
            shapes=parse_shapes(request.shapes),
            sizes=parse_sizes(request.sizes),
            allow_extern=request.allow_extern,
            strategy=request.strategy,
            reporter=now,
        )
    name = str(request.model)
    document = ReplayDocument(model=name, plans=[_replayed(name, each) for each in found])
    answer(document, replay_text(document), output_format)
    return WRONG if any(each.reason or each.differences for each in document.plans) else 0


def _replayed(model: str, found: Replayed) -> ReplayedDocument:
    plan = found.plan
    return ReplayedDocument(
        sizes=found.sizes,
        chosen=found.chosen,
        plan=PlanDocument.of(model, plan) if isinstance(plan, Plan) else None,
        reason=plan if isinstance(plan, str) else "",
        differences=found.differences,
    )
