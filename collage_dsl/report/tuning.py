"""What tuning has found, as JSON and as text for people."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from pydantic import Field

from collage_dsl.cost import Infeasible
from collage_dsl.cost.trials import Trial
from collage_dsl.printable import printable
from collage_dsl.report.documents import Document, FileName, VariantDocument
from collage_dsl.report.text import seconds, table


class TriedDocument(Document):
    """
    A schedule that was tried: what the kernel took with it, or the `reason` why it cannot be used.
    `trace` is the schedule, as the JSON that TVM writes. Times are in UTC.
    """

    seconds: float | None
    reason: str | None = None
    machine: str
    tried_at: str
    trace: str

    @classmethod
    def of(cls, trial: Trial) -> "TriedDocument":
        cost = trial.cost
        return cls(
            seconds=None if isinstance(cost, Infeasible) else cost,
            reason=cost.reason if isinstance(cost, Infeasible) else None,
            machine=trial.machine,
            tried_at=trial.tried_at,
            trace=trial.record.trace,
        )


class TunedDocument(Document):
    """
    A kernel that was tuned: how many schedules are known now, how many of them are `new`, and what
    its variants cost, the best schedule among them. The `log` has every schedule, fastest first.
    """

    target: str
    label: str
    nodes: list[str]
    function: str
    trials: int
    new: int
    variants: list[VariantDocument]
    log: list[TriedDocument]


class TuneDocument(Document):
    """The answer of `collage tune`; `records` is the file that keeps the schedules."""

    model: FileName
    records: FileName
    kernels: list[TunedDocument]


class RecordedDocument(Document):
    """
    The schedules that were tried for a function on a target, as JSON, with a version of TVM;
    `seconds` is the time with the fastest. The `log` is empty unless it is asked for.
    """

    label: str
    function: str
    target: str
    tvm: str
    machines: list[str]
    trials: int
    failed: int
    seconds: float | None
    log: list[TriedDocument] = Field(default_factory=list)


class RecordsDocument(Document):
    """The answer of `collage records show`."""

    records: FileName
    functions: list[RecordedDocument]


def records_document(path: str, trials: Iterable[Trial], *, with_log: bool) -> RecordsDocument:
    """What a file of records has, of trials that are sorted by function."""
    functions = groupby(trials, key=lambda each: (each.record.place, each.label))
    return RecordsDocument(
        records=path, functions=[_recorded(list(each), with_log=with_log) for _, each in functions]
    )


def _recorded(trials: Sequence[Trial], *, with_log: bool) -> RecordedDocument:
    first = trials[0]
    place = first.record.place
    return RecordedDocument(
        label=first.label,
        function=place.function,
        target=place.target,
        tvm=place.tvm,
        machines=sorted({each.machine for each in trials}),
        trials=len(trials),
        failed=sum(isinstance(each.cost, Infeasible) for each in trials),
        seconds=None if isinstance(first.cost, Infeasible) else first.cost,
        log=[TriedDocument.of(each) for each in trials] if with_log else [],
    )


def tune_text(document: TuneDocument) -> str:
    """A table of the tuned kernels, each beside its fastest variant that was not tuned."""
    if not document.kernels:
        return "no kernel of the model is worth tuning\n"
    head = ("kernel", "result", "schedules", "new", "tuned", "best of ours")
    found = table(head, map(_tuned_row, document.kernels))
    return f"{found}the schedules are in {printable(document.records)}\n"


def _tuned_row(kernel: TunedDocument) -> tuple[str, ...]:
    ours = [each for each in kernel.variants if each.name != "tuned" and each.cost is not None]
    best = min(ours, key=lambda each: each.cost or 0.0, default=None)
    shown = "" if best is None else f"{seconds(best.cost or 0.0)} ({best.name})"
    tuned = next((each.cost for each in kernel.variants if each.name == "tuned"), None)
    reached = "none" if tuned is None else seconds(tuned)
    counts = str(kernel.trials), str(kernel.new)
    return (kernel.label, kernel.nodes[-1], *counts, reached, shown)


def records_text(document: RecordsDocument) -> str:
    """A table of the functions with schedules, then the schedules that were asked for."""
    head = ("kernel", "function", "schedules", "failed", "fastest", "target", "TVM")
    rows = (_recorded_row(each) for each in document.functions)
    count = sum(each.trials for each in document.functions)
    logs = "".join(map(_log, document.functions))
    total = f"{printable(document.records)}: {count} schedule{'s' * (count != 1)}\n"
    return (table(head, rows) if count else "") + logs + total


def _recorded_row(each: RecordedDocument) -> tuple[str, ...]:
    fastest = "none" if each.seconds is None else seconds(each.seconds)
    counts = str(each.trials), str(each.failed)
    return (printable(each.label), each.function, *counts, fastest, each.target, each.tvm)


def _log(each: RecordedDocument) -> str:
    """The schedules of a function, if they were asked for."""
    if not each.log:
        return ""
    rows = (
        (
            "failed" if trial.seconds is None else seconds(trial.seconds),
            trial.tried_at,
            trial.machine,
            trial.reason or "",
        )
        for trial in each.log
    )
    shown = table(("time", "tried at", "machine", "why not"), rows)
    return f"\n{printable(each.label)}, {each.function}\n{shown}\n"
