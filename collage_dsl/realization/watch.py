"""Check each kernel of a running model on the values that the model gives it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import tvm

from collage_dsl.backends import winograd
from collage_dsl.backends.engines import Held
from collage_dsl.backends.onnx_writer import Unsupported
from collage_dsl.backends.variants import IN_PLACE
from collage_dsl.frontend.reference import REFUSALS
from collage_dsl.graph import Form, Graph, Node, OpSet, TensorType, extract, is_fast_math, members
from collage_dsl.graph.arrays import Array
from collage_dsl.graph.sizes import may_be
from collage_dsl.realization.difference import compared, is_exact, masked, unchanged
from collage_dsl.realization.kernel import constants_of
from collage_dsl.realization.onnx_reference import Reference
from collage_dsl.realization.partition import KernelCall
from collage_dsl.realization.shaken import is_float

_Found = tuple[Reference, tuple[int, ...], tuple[int, ...]]
"""What computes a kernel, the nodes that it takes, and those that it gives."""


class References:
    """The right results of kernel calls. Each kernel is written as ONNX once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.known: dict[OpSet, _Found] = {}
        self.unsupported: dict[OpSet, str] = {}

    def of(self, call: KernelCall) -> _Found | None:
        """None if the kernel cannot be written as ONNX, or onnxruntime does not run it."""
        inside = call.candidate.sub_graph.inside
        if inside in self.unsupported:
            return None
        if inside not in self.known:
            found = extract(self.graph, inside, constants_of(self.graph, inside))
            try:
                self.known[inside] = Reference(found.graph), found.arguments, found.results
            except (Unsupported, *REFUSALS) as error:
                self.unsupported[inside] = str(error)
                return None
        return self.known[inside]


class Watch:
    """
    Follows the calls of kernels in one run of a model. Each result is compared with that of
    onnxruntime for the values that the kernel took, so that errors do not add up.

    Some kernels are not called: what they do is a view, or a concatenation whose operands are
    written in place. Their right results are compared with what the next kernel takes. So is
    every other value, which shows whether it has been overwritten.
    """

    def __init__(
        self,
        references: References,
        calls: Sequence[KernelCall],
        inputs: Sequence[Array],
        report: Callable[[KernelCall, str, float, float], None],
        *,
        special: bool = False,
    ) -> None:
        self.references = references
        self.graph = references.graph
        self.calls = calls
        self.report = report
        self.special = special
        self.values = dict(zip(members(self.graph.parameters), inputs, strict=True))
        self.makers = {index: call for call in calls for index in call.results}
        self.uses = Counter(index for call in calls for index in self._activations(call))
        self.uses.update(self.graph.outputs)
        self.position = 0
        self.checked: set[OpSet] = set()
        """The nodes of each kernel whose results were compared."""
        self.is_defined = True
        """Whether every kernel so far took numbers only."""
        self.running: tuple[KernelCall, dict[int, Array]] | None = None

    def __call__(
        self, _function: Any, name: str, before: bool, result: Any, *arguments: Any
    ) -> int:
        """What the virtual machine calls before and after each of its calls."""
        if before:
            call = self._next(name, arguments)
            if call is not None:
                self.running = call, self._taken(call, arguments)
        elif self.running is not None and self.running[0].name == name:
            call, taken = self.running
            self.running = None
            self._check(call, taken, _results(call, result, arguments))
        return 0

    def end(self, outputs: Sequence[Any]) -> None:
        """Check the outputs that kernels gave which were not called."""
        for call in self.calls[self.position :]:
            self._leave_out(call)
        for index, output in zip(self.graph.outputs, outputs, strict=True):
            if not isinstance(output, Held):
                self._compare(index, output.numpy(), self.makers.get(index))

    # The order of calls.

    def _next(self, name: str, arguments: Sequence[Any]) -> KernelCall | None:
        """The kernel that is called. Those before it, which were not, are left out."""
        for position in range(self.position, len(self.calls)):
            call = self.calls[position]
            if call.name == name and self._fits(call, arguments):
                for skipped in self.calls[self.position : position]:
                    self._leave_out(skipped)
                self.position = position + 1
                return call
        return None

    def _fits(self, call: KernelCall, arguments: Sequence[Any]) -> bool:
        """Whether these may be the arguments of `call`, which need not be called in place."""
        for index, tensor in (self._given(call, arguments) or {}).items():
            type_ = self.graph.nodes[index].tensor
            shape = tuple(map(int, getattr(tensor, "shape", (-1,))))
            if not may_be(type_.shape, shape) or str(tensor.dtype) != type_.dtype:
                return False
            is_known = index in self.values and call.candidate.toolchain.variant == IN_PLACE
            if is_known and not _is_same(tensor.numpy(), self.values[index]):
                return False
        return True

    def _leave_out(self, call: KernelCall) -> None:
        """Compute what a kernel gives that is not called."""
        found = self.references.of(call)
        values = _right(found, self.values)
        if found is not None and values is not None:
            self.values |= dict(zip(found[2], values, strict=True))
            self.checked.add(call.candidate.sub_graph.inside)
        self._use(self._activations(call))

    # Values.

    def _activations(self, call: KernelCall) -> list[int]:
        """The arguments of a kernel that are no constants."""
        nodes = self.graph.nodes
        return [i for i in call.arguments if nodes[i].form is not Form.CONSTANT]

    def _given(self, call: KernelCall, arguments: Sequence[Any]) -> dict[int, Any] | None:
        """
        The tensors that a kernel takes, by node; None where it does not take all. TVM leaves out a
        tensor of which only the shape is needed, as in `eye_like`.
        """
        if not self._takes_all(call, arguments):
            return None
        wanted = set(self._activations(call))
        pairs = zip(call.arguments, arguments, strict=False)
        return {i: each for i, each in pairs if i in wanted and _is_tensor(self.graph, i)}

    def _takes_all(self, call: KernelCall, arguments: Sequence[Any]) -> bool:
        if call.candidate.toolchain.compiler is not None:
            return True
        tensors = [each for each in arguments if isinstance(each, tvm.runtime.Tensor | Held)]
        operands = [index for index in call.arguments if _is_tensor(self.graph, index)]
        return len(tensors) >= len(operands) + len(set(call.results.values()))

    def _taken(self, call: KernelCall, arguments: Sequence[Any]) -> dict[int, Array]:
        given = self._given(call, arguments)
        if given is None:
            taken = {i: self.values[i] for i in self._activations(call) if i in self.values}
        else:
            taken = {i: each.numpy() for i, each in given.items()}
        for index, array in taken.items():
            self._compare(index, array, self.makers.get(index, call))
        self._use(self._activations(call))
        return taken

    def _compare(self, index: int, array: Array, blamed: KernelCall | None) -> None:
        """Compare a value with what it was when it was made."""
        known = self.values.get(index)
        if known is None or blamed is None or _is_same(array, known):
            return
        error, allowed = compared(array, known, tuple)
        self.report(blamed, self.graph.nodes[index].name, error, allowed)

    def _use(self, indices: Sequence[int]) -> None:
        """Forget values that no later kernel takes."""
        for index in indices:
            self.uses[index] -= 1
            if not self.uses[index]:
                self.values.pop(index, None)

    # Results.

    def _check(
        self, call: KernelCall, taken: Mapping[int, Array], results: Mapping[int, Array]
    ) -> None:
        self.values |= {index: array for index, array in results.items() if self.uses[index]}
        is_defined = not any(map(_has_nan, taken.values()))
        self.is_defined &= is_defined
        found = self.references.of(call)
        is_wanted = is_defined if not self.special else self._keeps_special(call, taken)
        right = _right(found, taken) if is_wanted else None
        if found is None or right is None:
            return
        reference, arguments, given = found
        inputs = [taken[index] for index in arguments]
        if not reference.is_defined(inputs):
            self.is_defined = False
            return
        self.checked.add(call.candidate.sub_graph.inside)

        @cache
        def doubtful() -> list[list[Array]]:
            return list(reference.doubtful(inputs))

        @cache
        def near() -> list[list[Array]]:
            return list(reference.near(inputs))

        def others(place: int, shown: Callable[[Array], Array]) -> list[Array]:
            is_near = reference.decides or is_exact(right[place].dtype)
            every = doubtful() + (near() if is_near else [])
            return [shown(each[place]) for each in every]

        for place, (index, expected) in enumerate(zip(given, right, strict=True)):
            if index not in results:
                continue
            shown = unchanged if self.special else _numbers_of(expected)
            error, allowed = compared(
                shown(results[index]),
                shown(expected),
                partial(others, place, shown),
                reference.unit,
                in_steps=reference.decides,
            )
            self.report(call, self.graph.nodes[index].name, error, allowed)

    def _keeps_special(self, call: KernelCall, taken: Mapping[int, Array]) -> bool:
        """
        Whether a kernel has to give for infinities and NaN what onnxruntime does, and takes enough
        numbers to show it.
        """
        toolchain = call.candidate.toolchain
        inside = call.candidate.sub_graph.inside
        return (
            toolchain.compiler is None
            and not is_fast_math(toolchain)
            and toolchain.variant not in winograd.CHECKS
            and not any(_is_different(self.graph.nodes[i]) for i in members(inside))
            and all(_numbers(array) > _ENOUGH for array in taken.values())
        )


_DIFFERENT = frozenset(
    (
        *("argmax", "argmin", "argsort", "clip", "max", "min", "quantize", "sign"),
        *("sigmoid", "sort", "topk"),
        *("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"),
        *("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose"),
        *("image.grid_sample", "image.resize2d", "image.resize3d", "vision.roi_align"),
    )
)
"""Operators that give another result than onnxruntime for infinities or NaN: docs/numerics.md."""


def _is_different(node: Node) -> bool:
    """Whether onnxruntime gives another result of it for infinities or NaN."""
    is_extreme = node.op.startswith("scatter_") and node.attrs.get("reduction") in ("max", "min")
    return node.op in _DIFFERENT or is_extreme


_ENOUGH = 0.5
"""The least part of a tensor that is finite numbers where infinities and NaN are compared."""


def _right(found: _Found | None, values: Mapping[int, Array]) -> list[Array] | None:
    """The right results of a kernel, unless one of its inputs is unknown or out of its range."""
    if found is None or not all(index in values for index in found[1]):
        return None
    try:
        return found[0].run([values[index] for index in found[1]])
    except REFUSALS:
        return None


def _results(call: KernelCall, result: Any, arguments: Sequence[Any]) -> dict[int, Array]:
    """The results of a kernel by node. They are returned, or written to the last arguments."""
    given: list[Any]
    if isinstance(result, tvm.runtime.Tensor | Held):
        given = [result]
    elif result is not None:
        given = list(result)
    else:
        given = list(arguments[-len(set(call.results.values())) :])
    wanted = set(call.results.values())
    arrays = {p: given[p].numpy() for p in wanted if not isinstance(given[p], Held)}
    return {index: arrays[place] for index, place in call.results.items() if place in arrays}


def _is_tensor(graph: Graph, index: int) -> bool:
    return isinstance(graph.nodes[index].type, TensorType)


def _is_same(one: Array, other: Array) -> bool:
    is_alike = one.dtype == other.dtype and one.shape == other.shape
    return is_alike and np.array_equal(one, other, equal_nan=is_float(one))


def _has_nan(array: Array) -> bool:
    return is_float(array) and bool(np.isnan(array).any())


def _numbers(array: Array) -> float:
    """The part of an array that is finite numbers."""
    return float(np.isfinite(array).mean()) if array.size and is_float(array) else 1.0


def _numbers_of(expected: Array) -> Callable[[Array], Array]:
    """Makes the elements zero for which `expected` is not a number, where it has others."""
    return masked(~np.isnan(expected)) if _has_nan(expected) else unchanged
