"""Show the progress of a long command on stderr."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Callable

    from collage_dsl.measuring.cost import Counts

_STEPS = {
    "import": "importing the model",
    "measure": "measuring kernels",
    "build": "building plans",
    "race": "racing plans",
    "verify": "comparing with onnxruntime",
}


@contextmanager
def progress_on_stderr() -> "Iterator[Callable[[str, Counts], None]]":
    """A function that shows a step and its counts; on a terminal, in one line that changes."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting")
        shown = {"step": ""}

        def watch(step: str, counts: "Counts") -> None:
            text = f"{_STEPS[step]}: {counts_text(counts)}" if counts.found else _STEPS[step]
            progress.update(task, description=text)
            if step != shown["step"] and not console.is_terminal:
                console.print(_STEPS[step])
            shown["step"] = step

        yield watch


def counts_text(counts: "Counts") -> str:
    """The counts in words: `212 kernels found, 200 measured, 10 reused, 2 infeasible`."""
    return (
        f"{counts.found} kernels found, {counts.measured} measured, "
        f"{counts.reused} reused, {counts.infeasible} infeasible"
    )
