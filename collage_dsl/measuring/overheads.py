"""What kernels cost besides their work: to enter an executable, and to launch each kernel."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import NATIVE
from collage_dsl.backends.tvm import Tvm
from collage_dsl.cost import Cost, Infeasible, Measurement
from collage_dsl.cost.spread import Spread
from collage_dsl.graph import Toolchain
from collage_dsl.measuring.kept import Kept
from collage_dsl.measuring.process import Failed
from collage_dsl.measuring.task import SMALL, Overhead, OverheadTask, Timing, native_of


class MeasuringError(Exception):
    """Kernels cannot be measured on this machine as it is now."""


LEAST_LAUNCH = 0.67
"""What views cost, as a part of the measured time of a launch. No kernel costs less."""

_QUICK = 0.75
"""A kernel that runs code costs this part of a launch at the least."""

_MACHINE = Toolchain(NATIVE)
"""The target in whose context the speed of the machine is kept."""

_FASTER = 1.02
"""A machine is faster than its usual speed by this factor at least."""

_REFERENCE = "machine.reference"
"""The name of the seconds of the reference kernel in the store."""


@dataclass(frozen=True, slots=True)
class Overheads:
    """
    The costs of kernels besides their work. `measured` does a task while no other is done. One that
    fails is not tried again while the `limit` of its target, in seconds, is the same.
    """

    kept: Kept
    limit: Callable[[Toolchain], float]
    measured: Callable[[OverheadTask], Overhead | Failed]
    _failed: dict[tuple[str, float], Infeasible] = field(default_factory=dict)

    def launch(self, toolchain: Toolchain, backend: Backend) -> Cost:
        """The cost of a kernel of `toolchain` besides its work, if it can be measured."""
        return self._part("launch", toolchain, backend)

    def entry(self, toolchain: Toolchain) -> float:
        """What a run of any executable costs besides its kernels: the same for all backends."""
        entry = self._part("entry", native_of(toolchain), Tvm())
        if isinstance(entry, Infeasible):
            raise MeasuringError(f"cannot measure kernels here: {entry.reason}")
        return entry

    def know(self, toolchain: Toolchain, backend: Backend) -> None:
        """Measure now, alone, what the costs of kernels need besides their own time."""
        self.entry(toolchain)
        self.launch(toolchain, backend)

    def without_entry(self, timing: Timing, toolchain: Toolchain, backend: Backend) -> Timing:
        """A timing less what the call of any executable takes, but not less than a quick kernel."""
        entry, launch = self.entry(toolchain), self.launch(toolchain, backend)
        least = 0.0 if isinstance(launch, Infeasible) else launch * _QUICK
        spread = timing.spread
        if spread is not None:
            low, high = max(spread.low - entry, least), max(spread.high - entry, least)
            spread = replace(spread, low=low, high=high, speed=min(1.0, spread.speed))
        return replace(timing, seconds=max(timing.seconds - entry, least), spread=spread)

    def reference(self) -> float | None:
        """The seconds of the reference kernel at the usual speed of this machine, if known."""
        found = self.kept.store.get(_REFERENCE, self.kept.context(_MACHINE, Tvm()))
        return None if isinstance(found, Infeasible) else found

    def recorded_launch(self, toolchain: Toolchain, backend: Backend) -> Cost | None:
        """As `launch`, but nothing is measured: None if it is not known."""
        toolchain = toolchain.by()
        return self._known("launch", self._context(toolchain, backend), toolchain)

    def _context(self, toolchain: Toolchain, backend: Backend) -> str:
        others = None if toolchain.measure.runs == "rarely" else SMALL
        return self.kept.context(toolchain, backend, others=others)

    def _known(self, part: str, context: str, toolchain: Toolchain) -> Cost | None:
        tried = context, self.limit(toolchain)
        return self._failed.get(tried, self.kept.store.get(f"overhead.{part}", context))

    def _part(self, part: str, toolchain: Toolchain, backend: Backend) -> Cost:
        toolchain = toolchain.by()
        context = self._context(toolchain, backend)
        known = self._known(part, context, toolchain)
        if known is not None:
            return known
        measured = self.measured(OverheadTask(toolchain, backend, self.reference()))
        if isinstance(measured, Failed):
            failed = Infeasible(measured.reason, measured.kind)
            self._failed[context, self.limit(toolchain)] = failed
            return failed
        parts = {
            "launch": (measured.launch, measured.launch_spread),
            "entry": (measured.entry, measured.entry_spread),
        }
        for name, (seconds, spread) in parts.items():
            name, label = f"overhead.{name}", toolchain.name
            self.kept.keep(Measurement(name, context, label, seconds, spread=spread))
        if measured.reference is not None:
            self._keep_reference(measured.reference, measured.entry_spread)
        return parts[part][0]

    def learn(self, timing: Timing) -> None:
        """Keep the new usual speed, if the machine was seen to be faster than the known one."""
        spread, known = timing.spread, self.reference()
        if spread is not None and spread.speed > _FASTER and known is not None:
            self._keep_reference(known / spread.speed, spread)

    def _keep_reference(self, seconds: float, spread: Spread | None) -> None:
        """Keep the speed of this machine, if none or a lower one is known."""
        known = self.reference()
        if known is not None and known <= seconds:
            return
        context = self.kept.context(_MACHINE, Tvm())
        if spread is not None:
            spread = replace(spread, low=seconds, high=seconds)
        self.kept.keep(Measurement(_REFERENCE, context, "reference", seconds, spread=spread))
