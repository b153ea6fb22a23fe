"""How the kernels of a toolchain are timed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measuring:
    """
    How the kernels of a target are timed, as its `measure` block says; times are in seconds.

    A kernel is run at most `repeats` times, and after `budget` seconds no run is begun, but
    three are made (or `repeats`, where that is less). Its cost is that `percentile` of its
    times: usually a low one, since disturbances only ever add. A kernel that is not built and
    timed within `timeout` seconds is refused; None leaves that time to whoever measures.
    """

    repeats: int = 15
    percentile: int = 20
    budget: float = 0.3
    timeout: float | None = None

    @property
    def least(self) -> int:
        """How many runs are made, however long they take."""
        return min(3, self.repeats)
