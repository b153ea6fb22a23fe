"""Report calls in the graph of a test that TVM refuses, or gives another type than is written."""

from collage_dsl.graph import Graph, Node, TensorType, TupleType, Type
from collage_dsl.graph.operators import literal_values, operators
from collage_dsl.language.inference.infer import infer
from collage_dsl.language.inference.shapes import Call, MismatchError
from collage_dsl.language.inference.taken import refused
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.syntax import graph_ast


def check_types(written: graph_ast.Graph, graph: Graph, findings: Findings) -> None:
    """
    Report operands that TVM refuses, and written types that contradict what is inferred. A type
    that says more than what is inferred, or less, is right.
    """
    nodes = {node.name: node for node in graph.nodes}
    for statement in written.statements:
        match statement:
            case graph_ast.Node(name, said, graph_ast.GraphCall() as call):
                _check_call(call, nodes[name.text], said, graph, findings)


def no_tuple(node: Node) -> tuple[str, str]:
    """Why a field of `node` cannot be taken, and what to do about it."""
    operator = operators().get(node.op)
    if operator is None or operator.most_results in (None, 1):
        return f"`{node.name}` is {node.type}, not a tuple", ""
    message = f"the results of `{node.op}` are not inferred"
    return message, f"write their types: `{node.name}: (f32[4], f32[4]) = {node.op}(…)`"


def _check_call(
    written: graph_ast.GraphCall,
    node: Node,
    said: graph_ast.Type | None,
    graph: Graph,
    findings: Findings,
) -> None:
    operands = [graph.nodes[at] for at in node.inputs]
    types = tuple(operand.type for operand in operands)
    if why := refused(operators()[node.op], types):
        findings.error("E0603", written.span, why)
        return
    if said is None:
        return
    try:
        inferred = infer(Call(node.op, types, literal_values(operands), node.attrs))
    except MismatchError as problem:
        findings.error("E0603", written.span, str(problem))
        return
    if not _agrees(node, inferred):
        message = f"`{node.op}` gives {inferred} here"
        findings.error("E0603", said.span, message, "leave the type out: it is inferred")


def _agrees(node: Node, inferred: Type) -> bool:
    """Whether a node can have its type. One of ONNX has only those of its results that are used."""
    match node.type, inferred:
        case TupleType(said), TupleType(fields) if operators()[node.op].most_results is not None:
            left = iter(fields)
            return all(any(_agree(one, field) for field in left) for one in said)
        case TensorType(), TupleType(fields) if operators()[node.op].most_results is not None:
            return any(_agree(node.type, field) for field in fields)
        case _:
            return _agree(node.type, inferred)


def _agree(said: Type, inferred: Type) -> bool:
    """Whether a value can have both types, as far as they are known."""
    match said, inferred:
        case TupleType(fields), TupleType(others):
            return len(fields) == len(others) and all(map(_agree, fields, others))
        case TensorType(), TensorType():
            return _tensors_agree(said, inferred)
    return True


def _tensors_agree(said: TensorType, inferred: TensorType) -> bool:
    if said.shape is None or inferred.shape is None:
        return True  # without a shape, the inferred dtype is only likely
    if "unknown" not in (said.dtype, inferred.dtype) and said.dtype != inferred.dtype:
        return False
    pairs = zip(said.shape, inferred.shape, strict=False)
    known = [(a, b) for a, b in pairs if isinstance(a, int) and isinstance(b, int)]
    return len(said.shape) == len(inferred.shape) and all(a == b for a, b in known)
