"""Backends that are wrong, greedy or mortal in ways that a check of one draw does not see."""

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi

from collage_dsl.backends.runtime.build import make_module
from collage_dsl.graph import Form, Graph, Node, Option, TensorType
from tests.faulty_backends import Faulty


@dataclass(frozen=True, slots=True)
class OffWhenLarge(Faulty):
    """Adds a thousandth of what is above 50 to the results of a relu."""

    def fail(self, graph: Graph) -> Graph:
        relu = next(index for index, node in enumerate(graph.nodes) if node.op == self.on)
        node, scalar = graph.nodes[relu], TensorType("float32", ())
        limit = Node("limit", Form.CONSTANT, scalar, value=np.array(50, np.float32))
        part = Node("part", Form.CONSTANT, scalar, value=np.array(1e-3, np.float32))
        first = len(graph.nodes)
        more = [
            limit,
            part,
            replace(node, name="above", op="subtract", inputs=(node.inputs[0], first)),
            replace(node, name="positive", inputs=(first + 2,)),
            replace(node, name="small", op="multiply", inputs=(first + 3, first + 1)),
            replace(node, name="sum", op="add", inputs=(relu, first + 4)),
        ]
        assert graph.outputs == (relu,)
        return Graph([*graph.nodes, *more], [first + 5], name=graph.name)


@dataclass(frozen=True, slots=True)
class WrongForNegative(Faulty):
    """Takes the absolute value where a relu was asked for."""

    def fail(self, graph: Graph) -> Graph:
        nodes = [replace(n, op="abs") if n.op == self.on else n for n in graph.nodes]
        return Graph(nodes, graph.outputs, name=graph.name)


@dataclass(frozen=True, slots=True)
class Greedy(Faulty):
    """Takes 64 GiB."""

    def fail(self, graph: Graph) -> Graph:
        bytearray(1 << 36)
        return graph


@dataclass(frozen=True, slots=True)
class DyingOnce(Faulty):
    """Its process is killed when it first builds a relu; then there is a file `at`."""

    at: str = ""

    def fail(self, graph: Graph) -> Graph:
        if not Path(self.at).exists():
            Path(self.at).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return graph


@dataclass(frozen=True, slots=True)
class WritingToOperands(Faulty):
    """Computes what is right, and then overwrites the operand of a kernel that has a relu."""

    def codegen(self, graph: Graph, symbol: str, options: Mapping[str, Option]) -> Any:
        if self.on not in graph.operators(graph.calls):
            return super().codegen(graph, symbol, options)

        def engine(symbol: str, payload: bytes, constants: Mapping[str, Any]) -> Any:
            def run(x: Any, y: Any) -> None:
                np.maximum(np.from_dlpack(x), 0, out=np.from_dlpack(y))
                np.from_dlpack(x)[...] = 0

            return run

        tvm_ffi.register_global_func("collage.engine.writing", engine, override=True)
        return make_module(symbol, "writing", b"", {})
