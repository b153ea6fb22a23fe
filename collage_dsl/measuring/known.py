"""What is known of the kernels that a run has asked for."""

from collections.abc import Iterable, Sequence

from collage_dsl.cost import Measurement
from collage_dsl.measuring.ways import Key, Wanted, cheapest_of, margin_of


class Known:
    """What was measured of each kernel, by each of its variants."""

    def __init__(self) -> None:
        self._measured: dict[Key, tuple[Measurement, ...]] = {}

    def __contains__(self, wanted: Wanted) -> bool:
        return wanted.key in self._measured

    def every(self, wanted: Wanted) -> Sequence[Measurement]:
        """The measurement by each variant; empty for a kernel that is not known."""
        return self._measured.get(wanted.key, ())

    def chosen(self, wanted: Wanted) -> Measurement:
        """The measurement of a known kernel by its cheapest variant."""
        return cheapest_of(self._measured[wanted.key], margin_of(wanted.offered[0]))

    def date(self, wanted: Wanted) -> str:
        """When a known kernel was measured last, in UTC."""
        return max(each.measured_at for each in self._measured[wanted.key])

    def learn(self, wanted: Wanted, measured: Iterable[Measurement]) -> None:
        """Know a kernel by what was measured of each variant."""
        self._measured[wanted.key] = tuple(measured)

    def replace(self, wanted: Wanted, measured: Measurement) -> None:
        """Know another measurement of a known kernel by a variant."""
        known = self._measured[wanted.key]
        self.learn(wanted, (measured if m.variant == measured.variant else m for m in known))
