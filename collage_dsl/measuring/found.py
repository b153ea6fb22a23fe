"""The values of a model whose sizes are found as it runs, to time kernels that take them."""

from collections.abc import Mapping, Sequence
from typing import Any

from collage_dsl.backends.onnx_writer import Unsupported
from collage_dsl.frontend.reference import REFUSALS
from collage_dsl.graph import Form, Graph, OpaqueType, TensorType, members
from collage_dsl.graph.arrays import Array
from collage_dsl.graph.onnx_node import OnnxNode
from collage_dsl.graph.sizes import UNKNOWN, Sizes
from collage_dsl.realization.draws import NoDraw, draws_of
from collage_dsl.realization.onnx_reference import Reference


class FoundValues:
    """
    The values of graphs that onnxruntime finds in one run on usual inputs of some `sizes`, or on
    those `given`. Each graph is run once, when a value of it is first asked for.
    """

    def __init__(
        self, given: Mapping[str, Array] | None = None, sizes: Sizes | None = None
    ) -> None:
        self.given = given
        self.sizes = sizes
        self.known: dict[int, tuple[Graph, Mapping[int, Any] | str]] = {}

    def of(self, graph: Graph, nodes: Sequence[int]) -> Mapping[int, Any] | str:
        """
        The values of `nodes` that have no size in `graph` or that are shapes, or why they are not
        known.
        """
        if id(graph) not in self.known:
            self.known[id(graph)] = graph, self._found(graph)
        _, found = self.known[id(graph)]
        return found if isinstance(found, str) else {i: found[i] for i in nodes if i in found}

    def _found(self, graph: Graph) -> Mapping[int, Any] | str:
        every = members(graph.computed | graph.parameters)
        wanted = [i for i in every if is_found(graph, i) or is_shape(graph, i)]
        try:
            inputs = next(draws_of(graph, self.given, self.sizes)).inputs
            run = Graph(graph.nodes, wanted, name=graph.name, returns_tuple=True)
            values = Reference(run).run(list(inputs.values()))
        except (NoDraw, Unsupported, *REFUSALS) as error:
            said = " ".join(str(error).split())
            return f"the sizes of what it takes are not known: {said}"
        return dict(zip(wanted, values, strict=True))


_OF_SHAPES = ("int32", "int64")


def is_shape(graph: Graph, index: int) -> bool:
    """
    Whether an ONNX node takes computed integers, such as the sizes of a `Resize` or the lengths of
    an attention with a cache, which it may refuse to be any others.
    """
    type_ = graph.nodes[index].type
    if not graph.computed >> index & 1 or not isinstance(type_, TensorType):
        return False
    is_vector = type_.dtype in _OF_SHAPES and type_.shape is not None and len(type_.shape) <= 1
    users = members(graph.users_of[index])
    return is_vector and any(isinstance(graph.nodes[user].value, OnnxNode) for user in users)


def is_found(graph: Graph, index: int) -> bool:
    """Whether the size of a value is found only as the model runs."""
    node = graph.nodes[index]
    match node.type:
        case TensorType(shape=shape):
            is_unknown = shape is None or UNKNOWN in shape
        case OpaqueType():
            is_unknown = node.type.is_of_onnx
        case _:
            is_unknown = False
    return is_unknown and node.form is not Form.LITERAL
