"""Patterns of the nodes in the tests of the onnx package, with what holds of each of them."""

import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import helper
from onnx.backend.test.case.node import collect_testcases

from collage_dsl.graph.operators import operators
from collage_dsl.language.reasoning.claims.onnx_dtypes import DTYPES_BY_CODE


@dataclass(frozen=True, slots=True)
class Tensor:
    """The dtype and the shape of a tensor."""

    dtype: str
    shape: tuple[int, ...]

    def says(self, name: str, rng: random.Random | None) -> Iterator[str]:
        """Conditions that hold for the tensor `name`: all, or some that `rng` chooses."""
        said = [f"dtype({name}) == {self.dtype}", f"rank({name}) == {len(self.shape)}"]
        said += [f"dim({name}, {at}) == {dim}" for at, dim in enumerate(self.shape)]
        yield from (each for each in said if rng is None or rng.random() < 0.6)


@dataclass(frozen=True, slots=True)
class NodeCase:
    """A node with one operator, its operands as a graph has them, its attributes and results."""

    name: str
    op: str
    operands: tuple[Tensor, ...]
    attrs: tuple[tuple[str, str], ...]
    results: tuple[Tensor, ...]

    def pattern(self, rng: random.Random | None = None) -> str:
        """A pattern that matches the node, with conditions that hold for it."""
        names = [f"x{at}" for at in range(len(self.operands))]
        attrs = [f"{name} == {value}" for name, value in self.attrs]
        if rng is not None:
            attrs = [each for each in attrs if rng.random() < 0.6]
        asked = f" [{', '.join(attrs)}]" if attrs else ""
        lines = [f"  t = {self.op}({', '.join(names)}){asked};"]
        results = ["t"]
        if len(self.results) > 1:
            results = [f"y{at}" for at in range(len(self.results))]
            lines += [f"  {name} = t.{at};" for at, name in enumerate(results)]
        tensors = zip((*names, *results), (*self.operands, *self.results), strict=True)
        for name, tensor in tensors:
            lines += [f"  where {each};" for each in tensor.says(name, rng)]
        lines.append(f"  yield {', '.join(results)};")
        return "\n".join([f"pattern p({', '.join(names)}) {{", *lines, "}"])


def node_cases() -> Iterator[NodeCase]:
    """The nodes whose operands and results are tensors of numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    for case in found:
        if case.model is not None and len(case.model.graph.node) == 1:
            yield from _cases(case.name, case.model, case.data_sets[:1])


def _cases(name: str, model: Any, data_sets: Any) -> Iterator[NodeCase]:
    yield from filter(None, (_case(name, model, values) for values in data_sets))


def _case(name: str, model: Any, values: tuple[Any, Any]) -> NodeCase | None:
    (node,) = model.graph.node
    op = f"onnx.{node.op_type}"
    known = operators().get(op)
    inputs, outputs = ([each.name for each in of] for of in (model.graph.input, model.graph.output))
    types = {each.name: each.type for each in (*model.graph.input, *model.graph.output)}
    shapes = dict(zip((*inputs, *outputs), map(_shape, (*values[0], *values[1])), strict=True))
    given = list(dict.fromkeys(filter(None, node.input)))
    used = [each for each in node.output if each]
    if node.domain or known is None or any(shapes.get(each) is None for each in (*given, *used)):
        return None
    tensors = [_tensor(types[each], shapes[each]) for each in (*given, *used)]
    sure = [each for each in tensors if each is not None]
    if len(sure) < len(tensors) or not _takes(known, len(given)):
        return None
    attrs = tuple(_attributes(node, known))
    return NodeCase(name, op, (*sure[: len(given)],), attrs, (*sure[len(given) :],))


def _takes(known: Any, count: int) -> bool:
    most = None if known.operands is None else len(known.operands)
    return most is None or most - known.optional <= count <= most


def _shape(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, onnx.TensorProto):
        return tuple(value.dims)
    return tuple(value.shape) if hasattr(value, "shape") else None


def _tensor(type_: Any, shape: tuple[int, ...]) -> Tensor | None:
    dtype = DTYPES_BY_CODE.get(type_.tensor_type.elem_type)
    return None if dtype is None else Tensor(str(dtype), shape)


def _attributes(node: Any, known: Any) -> Iterator[tuple[str, str]]:
    """As a graph has them: one that the node lacks has its default."""
    written = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    for name in known.attrs:
        value = written.get(name, known.defaults.get(name))
        text = _text(value)
        if text is not None:
            yield name, text


def _text(value: Any) -> str | None:
    match value:
        case bytes():
            return f'"{value.decode()}"'
        case str():
            return f'"{value}"'
        case int():
            return str(value)
        case list() | tuple():
            items = [_text(each) for each in value]
            return None if None in items else f"[{', '.join(map(str, items))}]"
    return None
