"""Loops that run their body a known number of times, as the nodes that they repeat."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from collage_dsl.frontend.onnx_constants import array_of_constant, attributes
from collage_dsl.frontend.onnx_scope import rename
from collage_dsl.graph.arrays import Array
from collage_dsl.onnx_nodes import nodes_within

_MOST_NODES = 256
"""The most nodes that replace a loop."""


def count_of(node: onnx.NodeProto, constant: Callable[[str], Array | None]) -> int | None:
    """
    How often a `Loop` runs its body. None if this is not constant, if it never does, and where the
    nodes would be too many.
    """
    body = attributes(node).get("body")
    if not isinstance(body, onnx.GraphProto) or not 2 <= len(node.input) == len(body.input):
        return None
    limit = constant(node.input[0]) if node.input[0] else None
    if limit is None or limit.size != 1 or len(body.output) < len(body.input) - 1:
        return None
    begins = constant(node.input[1]) if node.input[1] else np.asarray(True)
    if begins is None or not begins.all() or not _goes_on(body, constant):
        return None
    count = int(limit.item())
    nodes = sum(1 for _ in nodes_within(body.node))
    return count if count >= 1 and count * max(nodes, 1) <= _MOST_NODES else None


def _goes_on(body: onnx.GraphProto, constant: Callable[[str], Array | None]) -> bool:
    """Whether the condition that the body gives is always true."""
    makers = {name: node for node in body.node for name in node.output}
    inside = {tensor.name: tensor for tensor in body.initializer}
    name = body.output[0].name
    for _ in body.node:
        maker = makers.get(name)
        if maker is not None and maker.op_type == "Identity" and maker.input:
            name = maker.input[0]
    maker = makers.get(name)
    if name in (value.name for value in body.input):
        return bool(name == body.input[1].name)
    if maker is not None:
        return maker.op_type == "Constant" and bool(array_of_constant(maker).all())
    known = numpy_helper.to_array(inside[name]) if name in inside else constant(name)
    return known is not None and bool(known.all())


Value = tuple[str, Array]
Step = tuple[onnx.GraphProto, Sequence[str], Sequence[Value]]
"""A graph without inputs, the names for its outputs, and constants that it takes."""


def steps_of(
    node: onnx.NodeProto, count: int, opset: int, taken: Collection[str]
) -> Iterator[Step]:
    """
    The graphs that do what a `Loop` of `count` iterations does, in order. Their values have names
    that are not `taken`.
    """
    body = attributes(node)["body"]
    prefix = next(filter(None, node.output), node.name)
    while any(name.startswith(f"{prefix}.") for name in taken):
        prefix += ".loop"
    carried, last = list(node.input[2:]), [value.name for value in body.output[1:]]
    kept = len(carried)
    every: list[list[str]] = [[] for _ in last[kept:]]
    for number in range(count):
        at = f"{prefix}.{number}"  # What the body has begins with this and a point.
        values = np.asarray(number, np.int64), np.asarray(True)
        constants = [
            (f"{at} {what}", array.reshape(_shape(value)))
            for what, array, value in zip(("number", "on"), values, body.input, strict=False)
        ]
        given = [name for name, _ in constants] + carried
        step = onnx.GraphProto()
        step.CopyFrom(body)
        known = {value.name: name for value, name in zip(body.input, given, strict=True)}
        del step.input[:], step.output[0]
        rename(step, known, partial("{}.{}".format, at))
        results = [f"{at} result{place}" for place in range(len(last))]
        yield step, results, constants
        carried = results[:kept]
        for names, name in zip(every, results[kept:], strict=True):
            names.append(name)
    nodes: list[onnx.NodeProto] = []
    stacked = [_stacked(names, f"{prefix}.all{i}", opset, nodes) for i, names in enumerate(every)]
    results = [*carried, *stacked]
    outputs: list[Any] = [onnx.ValueInfoProto(name=name) for name in results]
    axis = [(f"{prefix}.axis", np.asarray([0], np.int64))]
    yield helper.make_graph(nodes, "last", [], outputs), list(node.output), axis


def _shape(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    """The shape of one number: a vector where the body of a loop says so, as tf2onnx writes it."""
    return (1,) * min(len(value.type.tensor_type.shape.dim), 1)


def _stacked(names: Sequence[str], result: str, opset: int, nodes: list[onnx.NodeProto]) -> str:
    """The name of the values `names` along a new first axis, which `nodes` make."""
    prefix = result.rpartition(".")[0]
    rows = [f"{name}.row" for name in names]
    for name, row in zip(names, rows, strict=True):
        if opset < 13:
            nodes.append(helper.make_node("Unsqueeze", [name], [row], axes=[0]))
        else:
            nodes.append(helper.make_node("Unsqueeze", [name, f"{prefix}.axis"], [row]))
    nodes.append(helper.make_node("Concat", rows, [result], axis=0))
    return result
