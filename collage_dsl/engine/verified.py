"""Verify a compiled model against onnxruntime, and report what was found."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from collage_dsl.engine.sizes import Part
from collage_dsl.realization.draws import NoDraw, draws_of
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.partition import KernelCall
from collage_dsl.realization.runners import exact_runner, reference_name, runner
from collage_dsl.realization.verification import Finding, Verification, VerificationError, failed
from collage_dsl.realization.verify import verify
from collage_dsl.report.documents import (
    CandidateDocument,
    ErrorDocument,
    KernelErrorDocument,
    VerificationDocument,
)

Array = np.ndarray[Any, Any]


def check_drawn(part: Part) -> None:
    """Refuse now a model that could not be run at the end: inputs of which none can be drawn."""
    try:
        next(draws_of(part.graph, part.inputs))
    except NoDraw as error:
        raise VerificationError(str(error)) from None


def verified(
    model: Any, part: Part, executable: ModelExecutable, calls: Sequence[KernelCall]
) -> VerificationDocument:
    """
    The comparison of `executable` with the part of `model` that it is for. Raises
    `VerificationError` where they differ.
    """
    named = str(model) if isinstance(model, str | Path) else model
    reference = runner(named, part.shapes)
    draws = draws_of(part.graph, part.inputs)

    def exact(inputs: Mapping[str, Array]) -> Iterable[Mapping[str, Array]]:
        return exact_runner(model, part.shapes)(inputs)

    by = reference_name(model)
    verification = verify(executable, reference, exact, part.graph, calls, draws, by)
    if not verification.passed:
        raise failed(verification, by)
    return _document(verification, by)


def _document(verification: Verification, by: str) -> VerificationDocument:
    kernel, output = verification.kernel, verification.output
    return VerificationDocument(
        error=verification.error,
        tolerance=verification.tolerance,
        passed=verification.passed,
        kernel=_kernel_error(kernel) if kernel else None,
        output=ErrorDocument(**_error_of(output)) if output else None,
        draws=list(verification.draws),
        kernels=verification.kernels,
        unchecked=list(verification.unchecked),
        reference=by,
    )


def _kernel_error(finding: Finding) -> KernelErrorDocument:
    assert finding.kernel is not None
    about = CandidateDocument.of(finding.kernel).model_dump(exclude={"constants"})
    return KernelErrorDocument(**_error_of(finding), **about)


def _error_of(finding: Finding) -> dict[str, Any]:
    return {
        "node": finding.node,
        "error": finding.error,
        "tolerance": finding.tolerance,
        "inputs": finding.draw,
    }
