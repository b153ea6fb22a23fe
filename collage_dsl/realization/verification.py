"""What the comparison of a compiled model with its reference found, and how that is said."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from collage_dsl.frontend.reference import reason_of
from collage_dsl.graph import CandidateKernel
from collage_dsl.graph.variants import DIRECT
from collage_dsl.realization.draws import GIVEN, Draw


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
            f"the output `{worst.node}` differs from {reference} {_far(worst)}, "
            "but no kernel does\n"
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


def refused_inputs(draw: Draw, error: Exception, reference: str) -> str:
    """What is said where the reference does not run the model on a draw of inputs."""
    reason = reason_of(error)
    if draw.name == GIVEN:
        return f"{reference} does not run the model on the given inputs: {reason}"
    return (
        f"{reference} does not run the model on random inputs: {reason}\n"
        "help: give inputs that the model accepts, with the argument `inputs`"
    )


def all_undecided(names: Sequence[str]) -> str:
    """What is said where no draw of inputs lets the outputs `names` be compared."""
    listed = ", ".join(f"`{name}`" for name in names)
    return (
        f"rounding decides the size of {listed} for all random inputs, so that nothing can be "
        "compared\n"
        "help: give inputs as the model is made for, with the argument `inputs`"
    )


def no_number() -> str:
    """What is said where no draw of inputs gives an output that can be compared."""
    return (
        "no output of the model is a finite number to be compared\n"
        "help: give inputs as the model is made for, with the argument `inputs`"
    )


_SHOWN = 5
"""How many wrong kernels a message has at most."""


def _far(finding: Finding) -> str:
    """How far a value is from what it should be, to follow "differs"."""
    if isfinite(finding.error):
        share = f"by {finding.error:.1e} of its largest value"
        return f"{share}, where {finding.tolerance:.0e} is allowed (inputs: {finding.draw})"
    if not finding.tolerance:
        return f"in values that have to be equal (inputs: {finding.draw})"
    return f"in shape, in dtype, or in which numbers are finite (inputs: {finding.draw})"


def _described(finding: Finding) -> str:
    assert finding.kernel is not None
    graph, kernel = finding.kernel.graph, finding.kernel
    variant = f" by {kernel.toolchain.variant}" if kernel.toolchain.variant else ""
    nodes = sorted(kernel.nodes, key=graph.index)
    listed = ", ".join(nodes) if len(nodes) <= _SHOWN else f"{nodes[0]}, …, {nodes[-1]}"
    return (
        f"  {kernel.label} of target `{kernel.target}`{variant}, nodes {listed}: "
        f"`{finding.node}` differs {_far(finding)}"
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
