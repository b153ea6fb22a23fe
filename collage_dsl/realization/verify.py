"""
Compare a compiled model and each of its kernels with onnxruntime. The whole of a PyTorch program is
compared with PyTorch.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from collage_dsl.frontend.reference import REFUSALS
from collage_dsl.graph import Graph, OpSet
from collage_dsl.graph.arrays import Array
from collage_dsl.realization.difference import (
    compared,
    is_exact,
    numbers_in,
    pooled,
    unchanged,
)
from collage_dsl.realization.draws import Draw
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.objects import is_same_object
from collage_dsl.realization.onnx_reference import quantizes, summed_otherwise, unit_of
from collage_dsl.realization.partition import KernelCall
from collage_dsl.realization.runners import Evaluate, Run
from collage_dsl.realization.shaken import is_float, shaken
from collage_dsl.realization.verification import (
    ONNXRUNTIME,
    Finding,
    Verification,
    VerificationError,
    all_undecided,
    no_number,
    refused_inputs,
)
from collage_dsl.realization.watch import References, Watch


def verify(
    executable: ModelExecutable,
    expected: Run,
    exact: Evaluate,
    graph: Graph,
    calls: Sequence[KernelCall],
    draws: Iterable[Draw],
    reference: str = ONNXRUNTIME,
    near: Evaluate = lambda inputs: (),
) -> Verification:
    """
    Compare the outputs of a model with those of `expected`, and the results of each of its kernels
    with those of onnxruntime, for all `draws`. `exact` computes what `expected` does in other
    ways; it is asked in doubt. So is `near`, which changes the weights more, for integers that are
    computed from integers. `reference` is the name of what computes all. Raises `VerificationError`
    if no output is finite.
    """
    return _Verifier(executable, expected, exact, near, graph, calls, reference).run(draws)


def _says_something(value: Any) -> bool:
    """Whether there is something to be compared: a finite number, or what is no number."""
    if not isinstance(value, np.ndarray) or value.dtype.kind == "O" or not value.size:
        return True
    return bool(np.isfinite(value.astype(np.float64)).any())


def _least(expected: Array) -> float:
    """
    One unit in the last place of 1 as a part of the largest number, which is always allowed for an
    output: an import may compute `exp(x) - 1` as it stands.
    """
    numbers = np.abs(expected[np.isfinite(expected)].astype(np.float64))
    largest = float(numbers.max()) if numbers.size else 0.0
    return float(np.finfo(np.float32).eps) / largest if largest else 0.0


def _is_resized(other: Array, right: Array) -> bool:
    """Whether two results of the same, but for rounding, have other sizes."""
    return other.ndim == right.ndim and other.shape != right.shape


class _Verifier:
    def __init__(
        self,
        executable: ModelExecutable,
        expected: Run,
        exact: Evaluate,
        near: Evaluate,
        graph: Graph,
        calls: Sequence[KernelCall],
        reference: str,
    ) -> None:
        self.executable = executable
        self.expected = expected
        self.exact = exact
        self.near_by_weights = near
        self.graph = graph
        self.calls = calls
        self.reference = reference
        self.references = References(graph)
        self.findings: list[Finding] = []
        self.checked: set[OpSet] = set()
        self.compared: set[str] = set()
        self.is_finite = False

    def run(self, draws: Iterable[Draw]) -> Verification:
        names: list[str] = []
        outputs: list[str] = []
        for draw in draws:
            expected = self.right(draw)
            if expected is None:
                continue
            is_defined = self.kernels(draw)
            outputs = list(expected)
            if is_defined or not names:
                self.whole(draw, expected, numbers_only=not is_defined)
            names.append(draw.name)
        if not self.is_finite:
            raise VerificationError(no_number())
        findings = sorted(self.pooled(), key=lambda finding: finding.severity)
        by_kernel = {each.kernel: each for each in findings if each.kernel and not each.passed}
        wrong = sorted(by_kernel.values(), key=lambda finding: -finding.severity)
        undecided = [name for name in outputs if name not in self.compared]
        if undecided and not wrong:
            raise VerificationError(all_undecided(undecided))
        return Verification(
            next((each for each in reversed(findings) if each.kernel), None),
            next((each for each in reversed(findings) if not each.kernel), None),
            tuple(wrong),
            tuple(names),
            len(self.calls),
            tuple(self.unchecked()),
        )

    def pooled(self) -> Iterator[Finding]:
        """The findings, with what is allowed for values that are computed from quantized ones."""
        allowed: dict[object, list[float]] = {}
        for each in self.findings:
            allowed.setdefault((each.kernel, each.node), []).append(each.tolerance)
        for each in self.findings:
            kernel = each.kernel
            graph, inside = self.graph, self.graph.calls
            if kernel is not None:
                graph, inside = kernel.graph, kernel.sub_graph.inside
            if not each.passed and quantizes(graph, inside):
                tolerance = pooled(each.tolerance, allowed[each.kernel, each.node])
                yield replace(each, tolerance=tolerance)
            else:
                yield each

    def unchecked(self) -> Iterator[str]:
        """Why some kernels were never compared."""
        for call in self.calls:
            inside = call.candidate.sub_graph.inside
            if inside not in self.checked:
                yield self.references.unsupported.get(
                    inside, f"no draw has values for which {call.candidate.label} is defined"
                )

    def right(self, draw: Draw) -> Mapping[str, Array] | None:
        """The right outputs; None if onnxruntime refuses inputs that another draw changed."""
        try:
            expected = self.expected(draw.inputs)
        except REFUSALS as error:
            if draw.is_usual:
                raise VerificationError(refused_inputs(draw, error, self.reference)) from error
            return None
        self.is_finite |= any(map(_says_something, expected.values()))
        return expected

    def kernels(self, draw: Draw) -> bool:
        """Whether no kernel took anything but numbers."""

        def report(call: KernelCall, node: str, error: float, allowed: float) -> None:
            self.findings.append(Finding(error, allowed, node, draw.name, call.candidate))

        inputs = list(draw.inputs.values())
        watch = Watch(self.references, self.calls, inputs, report, special=draw.is_special)
        outputs = self.executable.watched(draw.inputs, watch)
        watch.end(outputs)
        self.checked |= watch.checked
        return watch.is_defined

    def whole(self, draw: Draw, expected: Mapping[str, Array], *, numbers_only: bool) -> None:
        """
        Compare the outputs, with `numbers_only` where both are finite numbers. An output of which
        rounding decides the size, as of the boxes that a detector finds, is not compared: a box
        more moves all that follow.
        """
        actual = self.executable.run(draw.inputs)

        @cache
        def doubtful() -> list[Mapping[str, Array]]:
            return list(self.doubtful(draw.inputs))

        @cache
        def near() -> list[Mapping[str, Array]]:
            return list(self.near(draw.inputs))

        def others(name: str, shown: Callable[[Array], Array]) -> list[Array]:
            every = doubtful() + (near() if is_exact(expected[name].dtype) else [])
            return [shown(each[name]) for each in every]

        unit = unit_of(self.graph)
        for name, right in expected.items():
            if not isinstance(right, np.ndarray) or right.dtype.kind == "O":
                error = 0.0 if is_same_object(actual[name], right, unit) else np.inf
                self.compared.add(name)
                self.findings.append(Finding(error, 0.0, name, draw.name))
                continue
            shown = numbers_in(actual[name], right) if numbers_only else unchanged
            error, allowed = compared(
                shown(actual[name]), shown(right), partial(others, name, shown), unit
            )
            if allowed:
                allowed = max(allowed, _least(shown(right)))
            if error > allowed and any(_is_resized(each, right) for each in others(name, shown)):
                continue
            self.compared.add(name)
            self.findings.append(Finding(error, allowed, name, draw.name))

    def doubtful(self, inputs: Mapping[str, Array]) -> Iterator[Mapping[str, Array]]:
        """
        Outputs that are as right as the expected ones. They are those of the original model, so
        that an error of its import is seen.
        """
        yield from self.exact(inputs)
        generator, unit = np.random.default_rng(0), unit_of(self.graph)
        for _ in range(2):
            shaken_inputs = {n: shaken(each, generator, unit) for n, each in inputs.items()}
            with suppress(*REFUSALS):
                yield self.expected(shaken_inputs)

    def near(self, inputs: Mapping[str, Array]) -> Iterator[Mapping[str, Array]]:
        """Outputs of which integers may be as right as the expected ones."""
        if not any(map(is_float, inputs.values())):
            yield from self.near_by_weights(inputs)
            return
        for changed in summed_otherwise(list(inputs.values()), unit_of(self.graph)):
            with suppress(*REFUSALS):
                yield self.expected(dict(zip(inputs, changed, strict=True)))
