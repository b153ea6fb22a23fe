"""The device of calls that are planned for none, and who may run them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collage_dsl.graph import OpSet
from collage_dsl.graph.target_kinds import share_device
from collage_dsl.rules.spec import Refusal


@dataclass(frozen=True, slots=True)
class DefaultDevice:
    """
    The device of targets of `kind`: values that are planned for no device are there, between
    kernels. Where `may_copy`, kernels on other devices take and give copies of them.
    """

    kind: str
    may_copy: bool = False

    def refusal(self, kinds: Iterable[str]) -> str:
        """Why no target of `kinds` may run calls that are planned for no device, else empty."""
        others = list(kinds)
        if self.may_copy or any(share_device(kind, self.kind) for kind in others):
            return ""
        return (
            f"it runs on the device of {' and '.join(others)}, the values are on that of "
            f"{self.kind}, and no copies between devices are allowed"
        )

    def refusals(self, kinds: Mapping[str, str]) -> Refusal | None:
        """The refusal of targets, each with its kind; None where all may run all calls."""
        reasons = {name: self.refusal([kind]) for name, kind in kinds.items()}

        def refusal(target: str, _inside: OpSet) -> str:
            return reasons[target]

        return refusal if any(reasons.values()) else None
