"""Backends that fail in the ways in which libraries do."""

import ctypes
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from collage_dsl.backends.base import LibraryBackend
from collage_dsl.backends.onnxruntime import OnnxRuntime
from collage_dsl.backends.runtime.build import NoCompiler
from collage_dsl.graph import Graph, Option

_WORKING = OnnxRuntime()


@dataclass(frozen=True, slots=True)
class Faulty(LibraryBackend):
    """A backend that works, but for kernels that contain the operator `on`."""

    on: str = "nn.relu"

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    @property
    def version(self) -> str:
        return "1"

    def supports(self, graph: Graph) -> str | None:
        return None

    def codegen(self, graph: Graph, symbol: str, options: Mapping[str, Option]) -> Any:
        if self.on in graph.operators(graph.calls):
            graph = self.fail(graph)
        # The runtime module asks for the engine of the working backend.
        return _WORKING.codegen(graph, symbol, options)

    def fail(self, graph: Graph) -> Graph:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Crashing(Faulty):
    """Dereferences null."""

    def fail(self, graph: Graph) -> Graph:
        ctypes.string_at(0)
        return graph


@dataclass(frozen=True, slots=True)
class Hanging(Faulty):
    def fail(self, graph: Graph) -> Graph:
        time.sleep(3600)
        return graph


@dataclass(frozen=True, slots=True)
class Refusing(Faulty):
    def fail(self, graph: Graph) -> Graph:
        raise RuntimeError("this library has no such kernel\nand a long story about it")


@dataclass(frozen=True, slots=True)
class Wrong(Faulty):
    """Takes another operator for the one it was asked for."""

    def fail(self, graph: Graph) -> Graph:
        nodes = [replace(n, op="tanh") if n.op == self.on else n for n in graph.nodes]
        return Graph(nodes, graph.outputs, name=graph.name, returns_tuple=graph.returns_tuple)


@dataclass(frozen=True, slots=True)
class Lacking(Faulty):
    """Needs a compiler that this machine does not have."""

    def prepare(self) -> None:
        raise NoCompiler("no C++ compiler `missing`: install one")
