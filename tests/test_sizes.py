"""Symbolic dimensions become the numbers that they stand for."""

import pytest

from collage_dsl.graph import Form, Graph, Node, OpaqueType, TensorType, TupleType, members
from collage_dsl.graph.sizes import size_of, with_sizes


@pytest.mark.parametrize(
    ("dim", "expected"),
    [
        (7, 7),
        ("n", 6),
        ("n * 2", 12),
        ("(n + 1) // m", 1),
        ("n % m - 1", 1),
        ("max(n, m)", 6),
        ("min(n - 5, 8) * m", 4),
        ("n + k", "n + k"),
        ("n // (m - 4)", "n // (m - 4)"),
        ("batch size", "batch size"),
        ("?", "?"),
        ("n.real", "n.real"),
        ("abs(n, m)", "abs(n, m)"),
        ("n ** m", "n ** m"),
    ],
)
def test_a_dimension_is_a_number_where_all_of_it_is_known(
    dim: int | str, expected: int | str
) -> None:
    assert size_of(dim, {"n": 6, "m": 4}) == expected


def test_types_and_shapes_in_a_graph() -> None:
    x, z = TensorType("float32", ("n", 4)), TensorType("float32", ("n", 2, 2))
    nodes = [
        Node("x", Form.INPUT, x),
        Node("y", Form.CALL, x, (0,), "nn.relu"),
        Node("z.shape", Form.LITERAL, OpaqueType("shape"), value=("n", 2, 2)),
        Node("z", Form.CALL, z, (1, 2), "reshape"),
        Node("t", Form.TUPLE, TupleType((x, z)), (1, 3)),
    ]
    graph = Graph(nodes, [3])
    sized = with_sizes(graph, {"n": 3})

    assert [str(sized.nodes[i].type) for i in members(sized.calls)] == ["f32[3, 4]", "f32[3, 2, 2]"]
    assert str(sized.nodes[4].type) == "(f32[3, 4], f32[3, 2, 2])"
    (shape,) = (node for node in sized.nodes if node.form is Form.LITERAL)
    assert shape.value == (3, 2, 2)
    assert [node.name for node in sized.nodes] == [node.name for node in graph.nodes]
