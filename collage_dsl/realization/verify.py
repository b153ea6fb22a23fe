"""
Compare a compiled model and each of its kernels with onnxruntime. The whole of a PyTorch program is
compared with PyTorch.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import onnx

from collage_dsl.frontend.from_torch import is_of_torch
from collage_dsl.frontend.onnx_model import Shapes
from collage_dsl.frontend.reference import REFUSALS, reference_session
from collage_dsl.frontend.torch_reference import TorchReference
from collage_dsl.graph import CandidateKernel, Graph, OpSet
from collage_dsl.graph.variants import DIRECT
from collage_dsl.realization.difference import compared, is_exact, numbers_in, unchanged
from collage_dsl.realization.draws import GIVEN, Draw
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.objects import is_same_object, run_session
from collage_dsl.realization.onnx_reference import (
    evaluated,
    is_float,
    rounds,
    shaken,
    summed_otherwise,
    unit_of,
    with_shaken_weights,
)
from collage_dsl.realization.partition import KernelCall
from collage_dsl.realization.watch import References, Watch

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """
    How far the value of `node` is from the right one for the inputs `draw`, and how far it may be.
    A `kernel` gave it; None for an output of the whole model.
    """

    error: float
    tolerance: float
    node: str
    draw: str
    kernel: CandidateKernel | None = None

    @property
    def passed(self) -> bool:
        return self.error <= self.tolerance

    @property
    def severity(self) -> float:
        """The error as a multiple of what is allowed."""
        if self.passed:
            return self.error / self.tolerance if 0 < self.tolerance < np.inf else 0.0
        return self.error / self.tolerance if self.tolerance else np.inf


@dataclass(frozen=True, slots=True)
class Verification:
    """
    The worst findings about one of the kernels of a model and about one of its outputs, and those
    about all kernels that are wrong, worst first. The kernels `unchecked`, of which it says why,
    were checked only as parts of the whole model.
    """

    kernel: Finding | None
    output: Finding | None
    wrong: tuple[Finding, ...]
    draws: tuple[str, ...]
    kernels: int
    unchecked: tuple[str, ...] = ()

    @property
    def worst(self) -> Finding:
        """A wrong kernel if there is one, since it explains wrong outputs."""
        found = [finding for finding in (self.kernel, self.output) if finding is not None]
        return self.wrong[0] if self.wrong else max(found, key=lambda each: each.severity)

    @property
    def error(self) -> float:
        return self.worst.error

    @property
    def tolerance(self) -> float:
        return self.worst.tolerance

    @property
    def passed(self) -> bool:
        return self.worst.passed


ONNXRUNTIME = "onnxruntime"


class VerificationError(Exception):
    """A compiled model does not compute the same as the original, or this cannot be decided."""

    def __init__(self, message: str, verification: Verification | None = None) -> None:
        super().__init__(message)
        self.verification = verification


def failed(verification: Verification, reference: str = ONNXRUNTIME) -> VerificationError:
    """The error that says which kernels are wrong and by how much, and what to do."""
    if not verification.wrong:
        worst = verification.worst
        return VerificationError(
            f"the output `{worst.node}` differs from {reference} by {_share(worst)}, but no kernel "
            "does\n"
            "help: the import of the model differs, or small errors add up; report the model as a "
            "defect",
            verification,
        )
    count = len(verification.wrong)
    differ = "differs" if count == 1 else "differ"
    lines = [f"{count} of {verification.kernels} kernels {differ} from onnxruntime"]
    lines += map(_described, verification.wrong[:_SHOWN])
    if count > _SHOWN:
        lines.append(f"  and {count - _SHOWN} more")
    lines.append(f"help: {_advice(verification.wrong[0])}")
    return VerificationError("\n".join(lines), verification)


def _refused(draw: Draw, error: Exception, reference: str) -> str:
    reason = " ".join(str(error).split())
    if draw.name == GIVEN:
        return f"{reference} does not run the model on the given inputs: {reason}"
    return (
        f"{reference} does not run the model on random inputs: {reason}\n"
        "help: give inputs that the model accepts, with the argument `inputs`"
    )


def _undecided(names: Sequence[str]) -> str:
    listed = ", ".join(f"`{name}`" for name in names)
    return (
        f"rounding decides the size of {listed} for all random inputs, so that nothing can be "
        "compared\n"
        "help: give inputs as the model is made for, with the argument `inputs`"
    )


_SHOWN = 5
"""How many wrong kernels a message has at most."""


def _share(finding: Finding) -> str:
    return (
        f"{finding.error:.1e} of its largest value, where {finding.tolerance:.0e} is allowed "
        f"(inputs: {finding.draw})"
    )


def _described(finding: Finding) -> str:
    assert finding.kernel is not None
    graph, kernel = finding.kernel.graph, finding.kernel
    variant = f" by {kernel.toolchain.variant}" if kernel.toolchain.variant else ""
    nodes = sorted(kernel.nodes, key=graph.index)
    listed = ", ".join(nodes) if len(nodes) <= _SHOWN else f"{nodes[0]}, …, {nodes[-1]}"
    return (
        f"  {kernel.label} of target `{kernel.target}`{variant}, nodes {listed}: "
        f"`{finding.node}` differs by {_share(finding)}"
    )


def _advice(finding: Finding) -> str:
    assert finding.kernel is not None
    toolchain = finding.kernel.toolchain
    if toolchain.variant not in ("", DIRECT):
        return (
            f"leave the variant {toolchain.variant} out of the `variants` of target "
            f"`{toolchain.name}`, or compile without the target, and report a defect"
        )
    return (
        f"compile without target `{toolchain.name}`, or leave this kernel out of its rules, and "
        f"report a defect of `{toolchain.compiler or 'tvm'}`"
    )


def run_onnx(model: onnx.ModelProto | str, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of `model` in onnxruntime without optimisations."""
    return runner(model)(inputs)


Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]
Evaluate = Callable[[Mapping[str, Array]], Iterable[Mapping[str, Array]]]


def runner(
    model: Any, shapes: Shapes | None = None
) -> Callable[[Mapping[str, Array]], dict[str, Array]]:
    """
    Runs `model` in onnxruntime without optimisations, for inputs of the `shapes` given; a program
    of PyTorch in PyTorch.
    """
    if is_of_torch(model):
        return TorchReference(model).run
    return partial(run_session, reference_session(model, shapes))


def exact_runner(model: Any, shapes: Shapes | None = None) -> Evaluate:
    """
    Computes `model` slowly, as `evaluated` does. If it rounds to integers inside, or its inputs
    have no floating point numbers that rounding could change, it is also run with weights that
    differ by rounding.
    """
    if is_of_torch(model):
        return TorchReference(model).exact
    loaded = model if isinstance(model, onnx.ModelProto) else onnx.load_model(model)
    is_rounding = rounds(loaded)

    def outputs(inputs: Mapping[str, Array]) -> Iterator[Mapping[str, Array]]:
        yield from evaluated(loaded, inputs)
        if any(map(is_float, inputs.values())) and not is_rounding:
            return
        generator = np.random.default_rng(0)
        for _ in range(8 if is_rounding else 2):  # where it rounds, few of them change much
            with suppress(*REFUSALS):
                yield runner(with_shaken_weights(loaded, generator), shapes)(inputs)

    return outputs


def reference_name(model: Any) -> str:
    """What `model` is compared with."""
    return "PyTorch" if is_of_torch(model) else ONNXRUNTIME


def verify(
    executable: ModelExecutable,
    expected: Run,
    exact: Evaluate,
    graph: Graph,
    calls: Sequence[KernelCall],
    draws: Iterable[Draw],
    reference: str = ONNXRUNTIME,
) -> Verification:
    """
    Compare the outputs of a model with those of `expected`, and the results of each of its kernels
    with those of onnxruntime, for all `draws`. `exact` computes what `expected` does in other
    ways; it is asked in doubt. `reference` is the name of what computes both. Raises
    `VerificationError` if no output is finite.
    """
    return _Verifier(executable, expected, exact, graph, calls, reference).run(draws)


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
        graph: Graph,
        calls: Sequence[KernelCall],
        reference: str,
    ) -> None:
        self.executable = executable
        self.expected = expected
        self.exact = exact
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
            raise VerificationError("no output of the model is a finite number to be compared")
        findings = sorted(self.findings, key=lambda finding: finding.severity)
        by_kernel = {each.kernel: each for each in findings if each.kernel and not each.passed}
        wrong = sorted(by_kernel.values(), key=lambda finding: -finding.severity)
        undecided = [name for name in outputs if name not in self.compared]
        if undecided and not wrong:
            raise VerificationError(_undecided(undecided))
        return Verification(
            next((each for each in reversed(findings) if each.kernel), None),
            next((each for each in reversed(findings) if not each.kernel), None),
            tuple(wrong),
            tuple(names),
            len(self.calls),
            tuple(self.unchecked()),
        )

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
                raise VerificationError(_refused(draw, error, self.reference)) from error
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
        for changed in summed_otherwise(list(inputs.values()), unit_of(self.graph)):
            with suppress(*REFUSALS):
                yield self.expected(dict(zip(inputs, changed, strict=True)))
