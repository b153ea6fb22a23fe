"""Say from which ONNX nodes each kernel came that may fail when a model runs."""

from collections.abc import Mapping, Sequence

from collage_dsl.graph import Graph, members
from collage_dsl.realization.checked_operators import INDEXED
from collage_dsl.realization.partition import KernelCall
from collage_dsl.realization.signature import Sources


def sources_of(graph: Graph, calls: Sequence[KernelCall]) -> Sources:
    """Native kernels fail at indices only; those of libraries at anything."""
    found: dict[str, list[Mapping[str, tuple[str, ...]]]] = {}
    for call in calls:
        is_native = not call.candidate.toolchain.compiler
        operators: dict[str, list[str]] = {}
        for index in members(call.candidate.sub_graph.inside & graph.calls):
            node = graph.nodes[index]
            if not is_native or node.op in INDEXED:
                came = graph.origins(1 << index)
                # The last is the operator itself; a shape that it takes may be before.
                came = came[-1:] if node.op in INDEXED else came
                named = [_text(node.name, each.op, each.name) for each in came]
                operators.setdefault(node.op, []).extend(named or [f"`{node.name}`"])
        found.setdefault(call.name, []).append({op: tuple(n) for op, n in operators.items()})
    return {name: tuple(each) for name, each in found.items() if any(each)}


def _text(value: str, op: str, name: str) -> str:
    return f"the {op} node `{name}`" if name else f"the {op} node of `{value}`"
