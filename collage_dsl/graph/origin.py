"""The nodes of an ONNX model that the nodes of a graph came from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """An ONNX node: its operator, and its name; empty if it has none."""

    op: str
    name: str

    def __str__(self) -> str:
        return f"{self.op} {self.name}".rstrip()
