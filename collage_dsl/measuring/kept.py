"""Keep what is measured on a machine in a store, with what its context means."""

from dataclasses import dataclass, field, replace

from collage_dsl.backends.base import Backend
from collage_dsl.cost import Context, CostStore, Measurement
from collage_dsl.cost.expiry import now
from collage_dsl.cost.measurement import text_of_date
from collage_dsl.graph import Toolchain
from collage_dsl.measuring.footprint import Far
from collage_dsl.measuring.key import context_of
from collage_dsl.measuring.machine import Machine


@dataclass(frozen=True, slots=True)
class Kept:
    """The measurements of `machine` in `store`."""

    store: CostStore
    machine: Machine
    _contexts: dict[str, Context] = field(default_factory=dict)
    _keys: dict[object, str] = field(default_factory=dict)

    def context(
        self, toolchain: Toolchain, *backends: Backend, others: int | None = None, far: Far = ()
    ) -> str:
        """The key of the context in which kernels of `toolchain` are timed; see `context_of`."""
        made_of = toolchain, backends, others, far
        if made_of not in self._keys:
            found = context_of(toolchain, *backends, others=others, far=far, machine=self.machine)
            self._contexts[found.key] = found
            self._keys[made_of] = found.key
        return self._keys[made_of]

    def keep(self, measurement: Measurement) -> Measurement:
        """
        Store a measurement, whose context was asked for before. Returns it as it is stored, with
        its date.
        """
        dated = replace(measurement, measured_at=text_of_date(now()))
        self.store.describe(self._contexts[measurement.context])
        self.store.put(dated)
        return dated
