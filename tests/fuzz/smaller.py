"""
Make the random model of a seed smaller, as long as it fails, and print it.

    python -m tests.fuzz.smaller SEED
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, helper, numpy_helper

from tests.fuzz import agreement, graphs, nodes
from tests.fuzz.agreement import Case
from tests.fuzz.aside import aside
from tests.fuzz.graphs import Made, RefusedError


def main(seed: int) -> None:
    nodes.cases()
    kind, case = aside(lambda: agreement.case_of(seed), 20)
    if kind != "made":
        print(f"onnxruntime takes no model: {case}")
        return
    why = problem(case, seed)
    if not why:
        print("it does not fail")
        return
    case, why = _with_few_inputs(case, seed, why)
    case, why = _with_few_nodes(case, seed, why)
    print(onnx.printer.to_text(case.made.model))
    np.set_printoptions(threshold=20, precision=4, edgeitems=1)
    for tensor in case.made.model.graph.initializer:
        print(f"{tensor.name} = {numpy_helper.to_array(tensor)!r}")
    for name, value in case.answers[0][1].items():
        print(f"{name} = {value!r}")
    print(why)
    path = Path(tempfile.gettempdir(), f"graph-{seed}.onnx")
    path.write_bytes(case.made.model.SerializeToString())
    print(path)


def problem(case: Case, seed: int) -> str:
    """Why a case fails; empty if it does not."""
    kind, found = aside(lambda: agreement.disagreement(case, Random(seed)), 20)
    return str(found) if kind != "ended" else "it ended the process"


def _with_few_inputs(case: Case, seed: int, why: str) -> tuple[Case, str]:
    for answer in case.answers:
        one = Case(case.made, [answer])
        if found := problem(one, seed):
            return one, found
    return case, why


def _with_few_nodes(case: Case, seed: int, why: str) -> tuple[Case, str]:
    """Without each node in turn, whose results become inputs."""
    for number in range(len(case.made.model.graph.node) - 1, -1, -1):
        graph = case.made.model.graph
        if len(graph.node) == 1:
            break
        kept = [node for place, node in enumerate(graph.node) if place != number]
        kind, smaller = aside(lambda kept=kept, case=case: part(case, kept), 20)
        if kind == "made" and (found := problem(smaller, seed)):
            case, why = smaller, found
    return case, why


def part(case: Case, kept: Sequence[NodeProto]) -> Case:
    """The case of some of the nodes."""
    made, (kind, inputs, _) = case.made, case.answers[0]
    names = [name for node in made.model.graph.node for name in node.output if name]
    values: dict[str, Any] = {**inputs, **graphs.run(with_outputs(made.model, names), inputs)}
    model = ModelProto()
    model.CopyFrom(made.model)
    graph = model.graph
    del graph.node[:], graph.input[:], graph.output[:], graph.initializer[:]
    graph.node.extend(kept)
    results = [name for node in kept for name in node.output if name]
    read = set(_read(kept))
    constants = [each for each in made.model.graph.initializer if each.name in read]
    graph.initializer.extend(constants)
    free = [n for n in values if n in read and n not in results]
    free = [n for n in free if n not in {each.name for each in constants}]
    known = {each.name: each for each in made.model.graph.input}
    graph.input.extend(known.get(n) or graphs.value_of(n, values[n]) for n in free)
    ends = [n for n in results if n not in read] or results
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in ends)
    feeds = {name: values[name] for name in free}
    if not feeds and not kept:
        raise RefusedError("nothing is left")
    return Case(
        Made(model, feeds, made.kept, made.sizes), [(kind, feeds, graphs.run(model, feeds))]
    )


def _read(nodes_: Sequence[NodeProto]) -> list[str]:
    found = []
    for node in nodes_:
        found += [name for name in node.input if name]
        for attribute in node.attribute:
            found += _read(attribute.g.node)
    return found


def with_outputs(model: ModelProto, names: Sequence[str]) -> ModelProto:
    """`model` with these values as outputs."""
    result = ModelProto()
    result.CopyFrom(model)
    del result.graph.output[:]
    result.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    return result


if __name__ == "__main__":
    main(int(sys.argv[1]))
