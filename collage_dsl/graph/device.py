"""Virtual devices: where a module plans its values to be."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Device:
    """
    A virtual device of Relax. `target` is TVM's target of the device as canonical JSON; `index`
    distinguishes devices of one target, and `memory_scope` the memories of one device.
    """

    target: str
    index: int = 0
    memory_scope: str = "global"

    def __str__(self) -> str:
        return f"device {self.index}, memory {self.memory_scope}, of {self.target}"
