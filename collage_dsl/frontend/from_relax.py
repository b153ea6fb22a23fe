"""Read a Relax function as a graph, in the canonical form that the patterns of libraries match."""

from collections.abc import Mapping, Sequence
from typing import Any

import tvm
from tvm import relax, tirx

from collage_dsl.argument_types import with_checked_types
from collage_dsl.frontend.canonical import canonical
from collage_dsl.frontend.errors import UnsupportedRelax
from collage_dsl.frontend.relax_reader import Functions, Names, Reader
from collage_dsl.graph import Graph, Type


@with_checked_types("names", "output_names", "types")
def from_relax(
    module: tvm.IRModule,
    function: str = "main",
    *,
    names: Names | None = None,
    output_names: Sequence[str] | None = None,
    types: Mapping[Any, Type] | None = None,
    is_canonical: bool = False,
) -> Graph:
    """
    The graph of one function of `module`, nodes in the order of its bindings, in the canonical
    form that `from_onnx` gives too. With `is_canonical`, the function is taken as it is; so is one
    whose calls are planned for devices.

    A node has the name of its variable, or the name in `names` for the variable or constant.
    Each constant comes before its first user. If that is `conv`, its name is `conv.const1`, after
    the operand that uses it; literals are named after their operand: `reshape.shape`. The names
    of the outputs are `output_names`, by default those of their nodes. `types` are the types of
    variables of which Relax has no types.
    """
    if function not in {var.name_hint for var in module.get_global_vars()}:
        raise UnsupportedRelax(f"the module has no function `{function}`")
    found = module[function]
    if not isinstance(found, relax.Function):
        raise UnsupportedRelax(f"`{function}` is not a Relax function")
    names, types = names or {}, types or {}
    graph = Reader(functions_of(module), names, output_names, types).read(module, function)
    if is_canonical or graph.planned:
        return graph
    made = canonical(module, function, names, functions_of(module))
    if made is None:
        return graph
    params = dict(zip(found.params, made.module[function].params, strict=True))
    moved = {params[var]: type_ for var, type_ in types.items()}
    reader = Reader(functions_of(made.module), made.names, output_names, moved)
    written = reader.read(made.module, function)
    return graph if _is_same(graph, written) else written


def _is_same(graph: Graph, other: Graph) -> bool:
    """Whether two graphs differ in names at most, if constants of the same place are equal."""

    def parts(graph: Graph) -> list[object]:
        return [(n.form, n.op, n.attrs, n.inputs, n.type) for n in graph.nodes]

    return graph.outputs == other.outputs and parts(graph) == parts(other)


def functions_of(module: tvm.IRModule) -> Functions:
    """A function that finds the PrimFuncs of `module` by their global variables."""

    def find(callee: Any) -> Any | None:
        is_known = isinstance(callee, tvm.ir.GlobalVar) and callee in module.functions
        function = module[callee] if is_known else None
        return function if isinstance(function, tirx.PrimFunc) else None

    return find
