"""Costs as JSON, to take them from one store to another."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from collage_dsl.cost.cost import Infeasible, Refusal
from collage_dsl.cost.damage import is_sqlite
from collage_dsl.cost.database import ExchangeError, StoreError
from collage_dsl.cost.expiry import expiry
from collage_dsl.cost.measurement import Context, Measurement, date_of, is_object
from collage_dsl.cost.spread import Spread
from collage_dsl.cost.store import CostStore
from collage_dsl.cost.strict import Strict
from collage_dsl.reading import cause_of, first_fault, text_of

_MOST_BYTES = 1 << 30
"""The longest file that is read, for some millions of costs."""

_TIME = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$"


def _object(text: str) -> str:
    if not is_object(text):
        raise ValueError("this is the text of no JSON object")
    return text


def _date(text: str) -> str:
    if date_of(text) is None:
        raise ValueError("this is no date")
    return text


_Object = Annotated[str, AfterValidator(_object)]
"""The text of a JSON object, or nothing."""

_Date = Annotated[str, Field(pattern=_TIME), AfterValidator(_date)]


class ContextDocument(Strict):
    """What costs depend on besides the kernel; `key` is a hash of it all."""

    key: str = Field(min_length=1)
    machine: str = ""
    target: str = ""
    options: _Object = ""
    versions: _Object = ""
    timed: _Object = ""


class SpreadDocument(Strict):
    """
    How exactly a cost is known: it is between `low` and `high` seconds, as `count` times say by a
    `method`, at this `speed` of the machine, as a part of its usual speed.
    """

    low: float = Field(ge=0, allow_inf_nan=False)
    high: float = Field(ge=0, allow_inf_nan=False)
    count: int = Field(ge=1)
    method: str
    speed: float = Field(default=1.0, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise ValueError("`low` is not above `high`")
        return self


class CostDocument(Strict):
    """
    One cost: `seconds`, or the `reason` why the kernel cannot run, and its `kind`. One that may
    pass is tried again at the time `retried`. Times are in UTC.
    """

    kernel: str = Field(min_length=1)
    context: str
    label: str
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    reason: str | None = None
    variant: str = ""
    error: Annotated[float, Field(ge=0)] | None = None
    kind: Refusal | None = None
    retried: str = ""
    spread: SpreadDocument | None = None
    measured_at: _Date

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.seconds is None) == (self.reason is None):
            raise ValueError("a cost has either `seconds` or a `reason`")
        return self


class CostsDocument(Strict):
    """The costs of a store, or some of them."""

    version: Literal[1] = 1
    contexts: list[ContextDocument]
    costs: list[CostDocument]

    @model_validator(mode="after")
    def _contexts_are_known(self) -> Self:
        known = {each.key for each in self.contexts}
        for each in self.costs:
            if each.context not in known:
                raise ValueError(f"the context `{each.context}` is not among `contexts`")
        return self


def exported(contexts: Iterable[Context], measurements: Iterable[Measurement]) -> str:
    """The measurements in some contexts, as JSON: a document of the form `CostsDocument`."""
    document = CostsDocument(
        contexts=[
            ContextDocument(**_fields(each)) for each in sorted(contexts, key=lambda each: each.key)
        ],
        costs=[document_of(each) for each in measurements],
    )
    return json.dumps(document.model_dump(exclude_defaults=True) | {"version": 1}, indent=1) + "\n"


def read(path: Path) -> tuple[list[Context], list[Measurement]]:
    """What a file has: a store, or JSON that `exported` wrote. Raises `StoreError`."""
    if is_sqlite(path):
        with CostStore(path, is_given=True) as store:
            contexts = [each.context for each in store.known()]
            return contexts, store.measurements([each.key for each in contexts])
    try:
        document = CostsDocument.model_validate_json(text_of(path, _MOST_BYTES))
    except (ValidationError, UnicodeDecodeError) as error:
        said = "neither a cost store nor a file that `collage costs export` wrote"
        fault = first_fault(error) if isinstance(error, ValidationError) else cause_of(error)
        raise ExchangeError(f"{path} is {said}: {fault}") from error
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot read {path}: {cause_of(error)}") from error
    return [Context(**each.model_dump()) for each in document.contexts], list(_costs(document))


def _fields(context: Context) -> dict[str, str]:
    names = ContextDocument.model_fields
    return {name: getattr(context, name) for name in names}


def document_of(measurement: Measurement) -> CostDocument:
    """A measurement in the form of a `CostsDocument`."""
    cost = measurement.cost
    return CostDocument(
        kernel=measurement.kernel,
        context=measurement.context,
        label=measurement.label,
        seconds=None if isinstance(cost, Infeasible) else cost,
        reason=cost.reason if isinstance(cost, Infeasible) else None,
        variant=measurement.variant,
        error=measurement.error,
        kind=cost.kind if isinstance(cost, Infeasible) else None,
        retried=expiry(measurement),
        spread=SpreadDocument(**asdict(measurement.spread)) if measurement.spread else None,
        measured_at=measurement.measured_at,
    )


def _costs(document: CostsDocument) -> Iterator[Measurement]:
    for each in document.costs:
        yield Measurement(
            each.kernel,
            each.context,
            each.label,
            _refused(each) if each.seconds is None else each.seconds,
            each.variant,
            each.error,
            Spread(**each.spread.model_dump()) if each.spread else None,
            each.measured_at,
        )


def _refused(cost: CostDocument) -> Infeasible:
    return Infeasible(str(cost.reason), cost.kind or Refusal.UNSUPPORTED)
