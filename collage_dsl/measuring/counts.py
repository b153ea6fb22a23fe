"""How many kernels were measured, and how many cannot run."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from collage_dsl.cost import Cost, Infeasible


@dataclass(slots=True)
class Counts:
    """
    How many distinct kernels were asked for, and where their costs came from. For each reason why
    kernels are infeasible, and each kind of reason, how many are. The first of those whose reason
    may pass is measured again from the time `retried` on; it is empty if there is none. `queued`
    are the seconds for which kernels waited for a device of another machine, and `lost` is how many
    devices were lost and replaced.
    """

    found: int = 0
    measured: int = 0
    reused: int = 0
    infeasible: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    retried: str = ""
    queued: float = 0.0
    lost: int = 0

    def learn(self, cost: Cost, expiries: Iterable[str]) -> None:
        """Count a kernel by its `cost`. What is known of its variants expires at some times."""
        for when in expiries:
            self.retried = min(when, self.retried or when)
        if isinstance(cost, Infeasible):
            self.infeasible += 1
            self.reasons[cost.reason] = self.reasons.get(cost.reason, 0) + 1
            self.kinds[cost.kind] = self.kinds.get(cost.kind, 0) + 1
