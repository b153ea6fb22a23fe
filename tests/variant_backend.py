"""A backend with variants: one prepares weights, one is wrong, one fails."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import te, tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule import schedule
from collage_dsl.backends.schedule.variants import Scheduled, VariantError
from collage_dsl.backends.tvm import Tvm
from collage_dsl.graph import Graph


@dataclass(frozen=True, slots=True)
class Varied(Tvm):
    """
    The native backend with other variants of convolutions than its own: `halved` takes weights
    that were halved, and then doubles them; `wrong` forgets to double them; `broken` fails.
    """

    @property
    def name(self) -> str:
        return "varied"

    @property
    def variants(self) -> tuple[str, ...]:
        return ("direct", "halved", "wrong", "broken")

    def unsuitable(self, variant: str, graph: Graph, weights: Collection[int]) -> str | None:
        if variant == "direct":
            return None
        products = [node for node in graph.nodes if node.op == "nn.conv2d"]
        if len(products) != 1:
            return f"{variant} is for one convolution"
        if products[0].inputs[1] not in weights:
            return f"{variant} is for constant weights"
        return None

    def schedule_variant(self, function: Any, target: Any, variant: str) -> Any:
        match variant:
            case "direct":
                return Scheduled(schedule(function, target=target))
            case "halved":
                return Scheduled(_doubling(function, target), _halved(function))
            case "wrong":
                return Scheduled(schedule(function, target=target), _halved(function))
            case _:
                raise VariantError("it never works")


def _weight(function: Any) -> int:
    """The position of the weight among the parameters: the only one with windows of 3 by 3."""
    shapes = [[int(extent) for extent in param.shape] for param in function.params]
    return next(i for i, shape in enumerate(shapes) if shape[2:] == [3, 3])


def _halved(function: Any) -> dict[int, Any]:
    """The position of the weight, and a PrimFunc that halves it."""
    position = _weight(function)
    weight = te.placeholder([int(n) for n in function.params[position].shape], name="weight")
    half = te.const(0.5, "float32")
    made = te.compute(weight.shape, lambda *at: weight(*at) * half, name="made")
    return {position: te.create_prim_func([weight, made])}


def _doubling(function: Any, target: Any) -> Any:
    """The function with each read of the weight doubled, by the usual schedule."""
    weight = function.params[_weight(function)]

    def doubled(load: Any) -> Any:
        return load * tirx.FloatImm("float32", 2.0) if load.source.same_as(weight) else load

    body = tvm_ffi.structural_map(function.body, (TensorLoad, doubled))
    return schedule(function.with_body(body), target=target)
