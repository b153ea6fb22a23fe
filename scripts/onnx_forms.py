"""
Find out which ONNX operators `from_onnx` writes with operators of Relax, by trying nodes of each:
those in the tests of the onnx package, those in `tests/fuzz/more_nodes.py` and in
`tests/test_fused_calls.py`, a few more, and these with other dtypes, attributes and numbers of
results.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from collage_dsl.frontend.errors import DefectError, FrontendError
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph import Form, Graph, Node, OpaqueType, TensorType, TupleType
from collage_dsl.graph.onnx_node import onnx_operator
from collage_dsl.graph.operators import CALL_TIR
from collage_dsl.graph.types import Type, dtype_names, short_dtype
from tests.fuzz.nodes import DTYPES, NodeCase, cases, converted, is_numbers, of_opset
from tests.test_fused_calls import TAKEN

_OPSET = 21
"""The operator set of the nodes, if it has their operator: one that onnxruntime has kernels for."""

_MOST_VARIED = 3
"""So many nodes of an operator are tried with changes."""

_USUAL = frozenset(short_dtype(str(np.dtype(dtype))) for dtype in DTYPES.values())
"""Dtypes of elements that have a byte or more."""

Row = Mapping[str, Any]
"""What the table of operators says of one."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A node of which the first `results` are used, and the name of what was changed in it."""

    case: NodeCase
    results: int = 1
    changed: str = ""

    @property
    def dtype(self) -> str:
        """The dtype of the first operand."""
        return next((_short(each.dtype) for each in self.case.operands if is_numbers(each)), "")

    @property
    def operands(self) -> int:
        return sum(each is not None for each in self.case.operands)

    def features(self, names: Iterable[str]) -> dict[str, object]:
        """What may be why a node stays; attributes have these `names`."""
        written = {a.name: repr(helper.get_attribute_value(a)) for a in self.case.node.attribute}
        dtypes = [_short(each.dtype) for each in self.case.operands if is_numbers(each)]
        return {
            **{name: written.get(name) for name in names},
            "dtype": self.dtype,
            "dtypes": tuple(dtypes) if len({*dtypes}) > 1 else (),
            "ranks": tuple(each.ndim for each in self.case.operands if each is not None),
            "operands": self.operands,
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    What became of a node: the operators, in order, or None if it stays; and the dtypes of all
    values. A node that stays `is_plain` if it gives tensors of numbers of a byte or more, and
    `is_sized` if the shapes of these follow from those of its operands.
    """

    of: Attempt
    ops: tuple[str, ...] | None
    dtypes: frozenset[str]
    is_plain: bool = True
    is_sized: bool = True


def forms(rows: Mapping[str, Row]) -> dict[str, Row]:
    """What the table says about the forms of operators, for those of which `rows` has the rest."""
    known = {onnx_operator(*key): list(given) for key, given in cases().items()}
    for case in _more():
        known.setdefault(onnx_operator(*case.key), []).append(case)
    given = ((op, known[op], row) for op, row in rows.items() if op in known)
    found = {op: _row(op, cases, row["attrs"], row["defaults"]) for op, cases, row in given}
    return {op: row for op, row in found.items() if row}


def _more() -> Iterator[NodeCase]:
    for call in TAKEN:
        yield _case(call.op, call.arrays(), dict(call.attrs))
    for rank in (1, 2, 3):
        sizes, windows, twice = [9] * rank, [3] * rank, [2] * rank
        x, depthwise, whole = _f(1, 4, *sizes), _f(8, 1, *windows), _f(6, 4, *windows)
        for op, more in ("onnx.Conv", {}), ("com.microsoft.FusedConv", {"activation": "Relu"}):
            yield _case(op, [x, whole], {"pads": [1] * 2 * rank, **more})
            yield _case(op, [x, whole, _f(6)], {"dilations": twice, **more})
            yield _case(op, [x, whole], {"kernel_shape": windows, **more})
            yield _case(op, [x, depthwise, _f(8)], {"group": 4, "strides": twice, **more})
    x, scale, zero, bias = _u(1, 4, 9, 9), np.float32(0.5), np.uint8(3), np.int32([7] * 8)
    for weight, attrs in (
        (_u(8, 4, 3, 3), {"pads": [1] * 4}),
        (_u(8, 4, 3, 3), {"dilations": [2, 2], "kernel_shape": [3, 3]}),
        (_u(8, 1, 3, 3), {"group": 4, "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ):
        quantized = [x, scale, zero, weight, scale, zero, scale, zero]
        for given in (quantized, [*quantized, bias]):
            yield _case("onnx.QLinearConv", [*map(np.asarray, given)], attrs)
        for count in (2, 3, 4):
            taken = [x, weight, zero, zero][:count]
            yield _case("onnx.ConvInteger", [*map(np.asarray, taken)], attrs)
    for heads in (1, 4):
        qkv, one = [_f(2, 3, 8)] * 3, [_f(2, 3, 8), _f(8, 24), _f(24)]
        yield _case("onnx.Attention", qkv, {"q_num_heads": heads, "kv_num_heads": heads}, 23)
        yield _case("com.microsoft.MultiHeadAttention", qkv, {"num_heads": heads})
        yield _case("com.microsoft.Attention", one, {"num_heads": heads})


def _f(*shape: int) -> Any:
    return np.linspace(-1, 1, math.prod(shape), dtype=np.float32).reshape(shape)


def _u(*shape: int) -> Any:
    return (np.arange(math.prod(shape)) % 251).astype(np.uint8).reshape(shape)


def _case(op: str, operands: Sequence[Any], attrs: Row, opset: int = _OPSET) -> NodeCase:
    domain, _, name = op.rpartition(".")
    names = [f"x{at}" if each is not None else "" for at, each in enumerate(operands)]
    node = helper.make_node(name, names, ["y"], domain="" if domain == "onnx" else domain, **attrs)
    return NodeCase(node, tuple(operands), opset)


def _row(op: str, given: Iterable[NodeCase], types: Mapping[str, str], defaults: Row) -> Row:
    plain = [_usual(case) for case in given if _is_plain(case)]
    first = _outcomes(op, map(Attempt, plain))
    dtypes = {each.of.dtype for each in first} - {""}
    if not dtypes:
        return {}
    dtype = "f32" if "f32" in dtypes else min(dtypes)
    usual = [each for each in first if each.of.dtype == dtype]
    formed = [each.of.case for each in usual if each.ops is not None]
    if not formed:
        return {"sized": True} if all(each.is_sized for each in first) else {}
    varied = _outcomes(op, _variations(formed, types, defaults))
    return _Form(op, types, usual, [*first, *varied]).row()


@dataclass(frozen=True, slots=True)
class _Form:
    """
    What is known of an operator: its `attributes`, what became of the nodes of the `usual` dtype,
    and of all its nodes.
    """

    op: str
    attributes: Iterable[str]
    usual: Sequence[Outcome]
    outcomes: Sequence[Outcome]

    def row(self) -> Row:
        formed = [
            each.of.features(self.attributes) for each in self.outcomes if each.ops is not None
        ]
        values = {name: {each[name] for each in formed} for name in formed[0]}
        kept = [each for each in self.outcomes if each.ops is None]
        unsure = {each.of.changed for each in kept}
        operands = {*values["operands"]}
        for each in kept:
            if not each.of.changed:
                features = each.of.features(self.attributes)
                blamed = {name for name, value in features.items() if value not in values[name]}
                unsure |= blamed
                operands -= set() if blamed else {each.of.operands}
        usual = [each for each in self.usual if each.of.operands in operands]
        others = [each for each in usual if each.ops is None and each.is_plain]
        usual = [each for each in usual if each.ops is not None]
        has_functions = any(CALL_TIR in each.ops for each in usual if each.ops)
        has_nodes = any(op.startswith("onnx.") for each in usual for op in each.ops or ())
        if len(others) > len(usual) or not usual or has_functions or has_nodes:
            return {}
        counts = Counter(tuple(dict.fromkeys(each.ops or ())) for each in usual)
        dtypes = {dtype for each in self.outcomes if each.ops is not None for dtype in each.dtypes}
        dtypes -= {each.of.dtype for each in kept if each.of.changed == "dtype"}
        results = {each.of.results for each in self.outcomes if each.ops is not None}
        results -= {each.of.results for each in kept if each.of.changed == "results"}
        free = (n for n in self.attributes if len(values[n]) > 1 and n not in unsure)
        needing = (
            e for e in usual if _stays(self.op, _imported(e.of.case, 1, has_constants=False))
        )
        constants = sorted({each.of.operands for each in needing})
        return {
            "form": {
                "ops": [list(ops) for ops, _ in counts.most_common()],
                "dtypes": [dtype for dtype in dtype_names() if dtype in dtypes],
                "operands": sorted(operands),
                "results": sorted(results),
                "attrs": sorted(free),
                **({"constants": constants} if constants else {}),
                **({"ranks": True} if "ranks" in unsure else {}),
            }
        }


# ---- Nodes ----


def _is_plain(case: NodeCase) -> bool:
    """Whether a node takes tensors of numbers that have elements."""
    given = [each for each in case.operands if each is not None]
    return bool(given) and all(is_numbers(each) and each.size for each in given)


def _usual(case: NodeCase) -> NodeCase:
    return case if case.opset <= _OPSET else of_opset(case, _OPSET) or case


def _variations(
    given: Sequence[NodeCase], types: Mapping[str, str], defaults: Row
) -> Iterator[Attempt]:
    """The nodes with one change; attributes of which several values are known keep theirs."""
    features = [Attempt(case).features(types) for case in given]
    known = {name for name in types if len({each[name] for each in features}) > 1}
    for case in given[:_MOST_VARIED]:
        if (count := len([*filter(None, case.node.output)])) > 1:
            yield Attempt(case, count, "results")
        for other in _of_other_dtypes(case):
            yield Attempt(other, 1, "dtype")
        for name, type_ in types.items():
            for value in _values(type_, defaults.get(name)) if name not in known else ():
                yield Attempt(case.with_attributes({name: value}), 1, name)


def _of_other_dtypes(case: NodeCase) -> Iterator[NodeCase]:
    """The node with the dtypes that its first operand, and all of the same dtype, may have."""
    parameters = case.parameters()
    first = parameters[0]
    if first is None:
        return
    same = [p is not None and p.type_str == first.type_str for p in parameters]
    for text, dtype in DTYPES.items():
        if text in first.types:
            pairs = zip(case.operands, same, strict=True)
            changed = (converted(x, dtype) if so and is_numbers(x) else x for x, so in pairs)
            yield replace(case, operands=tuple(changed))


def _values(type_: str, default: Any) -> tuple[Any, ...]:
    """Values of an attribute that are tried; None for none."""
    if type_ == "float":
        return (None, 0.5, 1.0, 2.0)
    return (None, 0, 1) if type_ == "int" and default == 0 else (None,)  # often a truth value


# ---- Models ----


def _outcomes(op: str, attempts: Iterable[Attempt]) -> list[Outcome]:
    return [found for each in attempts if (found := _outcome(op, each)) is not None]


def _outcome(op: str, attempt: Attempt) -> Outcome | None:
    """None where there is no such node, or where it gives a tensor without elements."""
    graph = _imported(attempt.case, attempt.results)
    if graph is None:
        return None
    dtypes = frozenset(_short(t.dtype) for node in graph.nodes for t in _tensors(node.type))
    calls = [node for node in graph.nodes if node.form is Form.CALL]
    if not _stays(op, graph):
        return Outcome(attempt, tuple(node.op for node in calls), dtypes)
    types = [t for node in calls if node.op == op for t in _tensors(node.type)]
    if any(0 in (t.shape or ()) for t in types):
        return None
    is_plain = dtypes <= _USUAL and not any(map(_is_opaque, calls))
    return Outcome(attempt, None, dtypes, is_plain, all(t.is_static for t in types))


def _stays(op: str, graph: Graph | None) -> bool:
    return graph is not None and any(node.op == op for node in graph.nodes)


def _is_opaque(node: Node) -> bool:
    types = node.type.fields if isinstance(node.type, TupleType) else (node.type,)
    return any(isinstance(type_, OpaqueType) for type_ in types)


def _tensors(type_: Type) -> list[TensorType]:
    if isinstance(type_, TupleType):
        return [tensor for field in type_.fields for tensor in _tensors(field)]
    return [type_] if isinstance(type_, TensorType) else []


_MOST_ELEMENTS = 64


def _imported(case: NodeCase, results: int, *, has_constants: bool = True) -> Graph | None:
    """
    The graph of a model of the node; None where there is no such node. Operands after the first
    that may be axes, sizes or scales are constants, if it `has_constants`.
    """
    node = case.node
    inputs, known = [], []
    pairs = dict(zip(node.input, case.operands, strict=False))
    for place, (name, array) in enumerate(pairs.items()):
        if array is None:
            continue
        if place and has_constants and array.ndim < 2 and array.size <= _MOST_ELEMENTS:
            known.append(numpy_helper.from_array(array, name))
        else:
            dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
            inputs.append(helper.make_tensor_value_info(name, dtype, array.shape))
    named = [name for name in node.output if name]
    outputs = [onnx.ValueInfoProto(name=name) for name in named[:results]]
    graph = helper.make_graph([node], "node", inputs, outputs, known)
    opsets = {node.domain: 1, "": case.opset}
    made = [helper.make_opsetid(*each) for each in opsets.items()]
    try:
        return from_onnx(helper.make_model(graph, opset_imports=made, ir_version=10))
    except (DefectError, FrontendError):
        return None


def _short(dtype: object) -> str:
    return short_dtype(str(dtype))
