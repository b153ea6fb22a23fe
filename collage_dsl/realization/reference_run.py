"""Run ONNX's reference implementation, without keeping each value until the end."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx.reference import ReferenceEvaluator

from collage_dsl.frontend.onnx_scope import names_read


def run_reference(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> list[Any]:
    """
    The outputs of `model`. ONNX's evaluator keeps all values until the end, which takes gigabytes
    where a small model has large images inside. Here each is dropped after its last use.
    """
    evaluator = ReferenceEvaluator(model)
    evaluator.rt_nodes_ = list(_with_drops(model, evaluator.rt_nodes_))
    return list(evaluator.run(None, dict(inputs)))


@dataclass(frozen=True, slots=True)
class _Drop:
    """Stands among the nodes of the evaluator, and takes values out of what it has computed."""

    names: tuple[str, ...]
    op_type: str = "Drop"
    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    has_linked_attribute: bool = False

    def need_context(self) -> bool:
        return True

    def run(self, *, context: dict[str, Any], **_: Any) -> tuple[()]:
        for name in self.names:
            context.pop(name, None)
        return ()


def _with_drops(model: onnx.ModelProto, nodes: Sequence[Any]) -> Iterator[Any]:
    """The nodes of the evaluator; after each, a drop of the values that no later node uses."""
    kept = {"", *(value.name for value in model.graph.output)}
    last: dict[str, int] = {}
    for place, node in enumerate(model.graph.node):
        last |= dict.fromkeys({*node.output, *names_read(node)} - kept, place)
    dropped: dict[int, list[str]] = defaultdict(list)
    for name, place in last.items():
        dropped[place].append(name)
    for place, node in enumerate(nodes):
        yield node
        if place in dropped:
            yield _Drop(tuple(dropped[place]))
