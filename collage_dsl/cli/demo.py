"""`collage demo`: compile a real model without any input from the user."""

from pathlib import Path

from collage_dsl.cli.answer import answer
from collage_dsl.cli.models import Request, compiled_model
from collage_dsl.report.text import compile_text

_MODEL = "alexnet"
_TARGETS = ("native", "onnxruntime")


def run_demo(model: Path | None, store: Path | None, num_cores: int, output_format: str) -> None:
    """Compile `model`, or AlexNet with seeded random weights, for two shipped targets."""
    request = Request(model or Path(_MODEL), _TARGETS, store=store, num_cores=num_cores)
    compiled = compiled_model(request)
    answer(compiled.report, compile_text(compiled.report), output_format)
