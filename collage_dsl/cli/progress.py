"""Show the progress of a long command on stderr."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TimeElapsedColumn
from rich.text import Text

from collage_dsl.cli.output import tell
from collage_dsl.cost import Infeasible
from collage_dsl.report.text import seconds
from collage_dsl.search import NoReporter, Problem

if TYPE_CHECKING:
    from collage_dsl.cost.trials import Trial
    from collage_dsl.measuring.counts import Counts

_STEPS = {
    "import": "importing the model",
    "choose": "choosing kernels",
    "measure": "measuring kernels",
    "tune": "tuning kernels",
    "build": "building plans",
    "race": "racing plans",
    "refine": "refining by runs of whole plans",
    "verify": "comparing with onnxruntime",
}


class Now(NoReporter):
    """What a command does now: its step, what its search has done, and the kernels measured."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.step = "choose"
        self.told: set[str] = set()
        self.counts: Counts | None = None
        self.problem: Problem | None = None
        self.states = 0
        self.best: float | None = None
        self.schedules = ""

    def watch(self, step: str, counts: "Counts") -> None:
        """Hears each step, and the kernels counted so far."""
        if step not in self.told and not self.console.is_interactive:
            tell(_STEPS[step])
        self.told.add(step)
        self.step, self.counts = step, counts

    def tried(self, label: str, count: int, trial: "Trial") -> None:
        """Hears of each schedule that is tried for a kernel."""
        last = trial.cost
        took = "failed" if isinstance(last, Infeasible) else seconds(last)
        self.schedules = f"{label}: {count} schedule{'s' * (count != 1)} tried, the last {took}"

    def started(self, problem: Problem, strategy: str, because: str) -> None:
        self.step, self.problem = "choose", problem
        self.states, self.best = 0, None

    def explored(self, states: int) -> None:
        self.states += states

    def improved(self, cost: float) -> None:
        self.best = cost

    def __str__(self) -> str:
        said = []
        if self.problem and self.step in ("choose", "measure"):
            said.append(self._searched(self.problem))
        if self.counts and self.counts.found:
            said.append(counts_text(self.counts))
        if self.schedules and self.step == "tune":
            said = [self.schedules]
        step = _STEPS[self.step]
        return f"{step}: {'; '.join(said)}" if said else step

    def _searched(self, problem: Problem) -> str:
        known = "" if self.best is None else f", best plan {seconds(self.best)}"
        states = f"{self.states} state{'s' * (self.states != 1)} explored"
        priced = f"{len(problem.priced)} of {len(problem.candidates)} candidates priced"
        return f"{priced}, {states}{known}"


class _Line(ProgressColumn):
    """What a command does now, read whenever the line is drawn."""

    def __init__(self, now: Now) -> None:
        super().__init__()
        self.now = now

    def render(self, task: Task) -> Text:
        return Text(str(self.now))


@contextmanager
def progress_on_stderr() -> Iterator[Now]:
    """Give what shows the steps of a command: on a terminal, in one line that changes."""
    console = Console(stderr=True)
    now = Now(console)
    if not console.is_interactive:
        yield now
        return
    columns = (SpinnerColumn(), _Line(now), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task("")
        yield now


def counts_text(counts: "Counts") -> str:
    """The counts in words: `212 kernels found, 200 measured, 10 reused, 2 infeasible`."""
    return (
        f"{counts.found} kernels found, {counts.measured} measured, "
        f"{counts.reused} reused, {counts.infeasible} infeasible"
    )
