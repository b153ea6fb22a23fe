"""The schedules that tuning finds: how many to try, and the record of one."""

import json
from dataclasses import dataclass
from typing import Self

TUNED = "tuned"
"""The native variant that has the schedule of a record."""

RECORD = "collage_record"
"""The function attribute with the text of the record that schedules a kernel."""

Trace = list[object]
"""The steps of a MetaSchedule schedule, as the JSON that TVM writes."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """
    How kernels of a target are tuned, as its `tune` block says: by at most so many `trials` for
    each kernel. With none, nothing is tuned.
    """

    trials: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """
    What a schedule is for: a function by the hash of its form, a TVM target, and a version of TVM.
    Records of other places are not used.
    """

    function: str
    target: str
    tvm: str


@dataclass(frozen=True, slots=True)
class Record:
    """A schedule for a fused function: the steps that make it, as JSON."""

    place: Place
    trace: str

    def text(self) -> str:
        """The record as one text, for the attributes of a function."""
        place = self.place
        return json.dumps([place.function, place.target, place.tvm, self.trace])

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Raises ValueError if `text` is not what `text` writes."""
        fields = json.loads(text)
        if not isinstance(fields, list) or [type(each) for each in fields] != [str] * 4:
            raise ValueError("this is no record of tuning")
        function, target, tvm, trace = fields
        return cls(Place(function, target, tvm), trace)
