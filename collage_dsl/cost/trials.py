"""What tuning has tried: schedules, and how long a kernel took with each; and a file of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from collage_dsl.cost.cost import Cost, Infeasible
from collage_dsl.cost.strict import Strict
from collage_dsl.graph.tuning import Place, Record
from collage_dsl.scratch import replacement


@dataclass(frozen=True, slots=True)
class Trial:
    """
    A schedule that was tried for a function: what the kernel took with it, or why it cannot be
    used. `label` names the operators of the kernel, and `machine` the processor that timed it.
    """

    record: Record
    label: str
    machine: str
    cost: Cost
    tried_at: str = field(default="", compare=False)


class TrialDocument(Strict):
    """One trial: `seconds`, or the `reason` why the schedule cannot be used. Times are in UTC."""

    function: str = Field(pattern="^[0-9a-f]{16}$")
    target: str
    tvm: str
    trace: str
    label: str
    machine: str
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    reason: str | None = None
    tried_at: str = Field(pattern=r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$")

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.seconds is None) == (self.reason is None):
            raise ValueError("a trial has either `seconds` or a `reason`")
        return self

    @classmethod
    def of(cls, trial: Trial) -> Self:
        return cls.of_columns(columns_of(trial))

    @classmethod
    def of_columns(cls, columns: Sequence[object]) -> Self:
        return cls.model_validate(dict(zip(cls.model_fields, columns, strict=True)))

    def trial(self) -> Trial:
        place = Place(self.function, self.target, self.tvm)
        cost = Infeasible(self.reason or "") if self.seconds is None else self.seconds
        return Trial(Record(place, self.trace), self.label, self.machine, cost, self.tried_at)


class TrialsDocument(Strict):
    """The trials of a file of records, or some of them."""

    version: Literal[1] = 1
    trials: list[TrialDocument]


def export_trials(trials: Iterable[Trial], path: Path) -> None:
    """Write trials as JSON, one in a line."""
    lines = (TrialDocument.of(each).model_dump_json(exclude_none=True) for each in trials)
    with replacement(path) as new:
        new.write_text('{"version": 1, "trials": [\n' + ",\n".join(lines) + "\n]}\n", "utf-8")


def columns_of(trial: Trial) -> tuple[object, ...]:
    """The fields of a trial in the order of those of `TrialDocument`."""
    cost, place = trial.cost, trial.record.place
    return (
        *(place.function, place.target, place.tvm),
        trial.record.trace,
        trial.label,
        trial.machine,
        None if isinstance(cost, Infeasible) else cost,
        cost.reason if isinstance(cost, Infeasible) else None,
        trial.tried_at or datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S"),
    )


def trial_of(row: Sequence[object]) -> Trial | None:
    """The trial with these columns; None if they are not one."""
    try:
        return TrialDocument.of_columns(row).trial()
    except ValidationError:
        return None
