"""Verify a compiled model against onnxruntime, and report what was found."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from collage_dsl.engine.sizes import Part, timed_draw
from collage_dsl.frontend.errors import FrontendError
from collage_dsl.frontend.reference import REFUSALS
from collage_dsl.graph.arrays import Array
from collage_dsl.realization.draws import NoDraw, draws_of, other_draws, timed_sizes_of
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.partition import KernelCall
from collage_dsl.realization.runners import exact_runner, near_runner, reference_name, runner
from collage_dsl.realization.verification import (
    Finding,
    Verification,
    VerificationError,
    failed,
    refused_inputs,
)
from collage_dsl.realization.verify import verify
from collage_dsl.report.documents import (
    CandidateDocument,
    ErrorDocument,
    KernelErrorDocument,
    VerificationDocument,
)


def drawn(model: Any, part: Part) -> Part:
    """
    The part of `model`, with sizes at which it runs and is timed. If it does not run on inputs of
    the usual sizes, random ones of other sizes are the given ones. Raises `VerificationError` if it
    runs on neither. Inputs that the user gives are not tried before the kernels check them, which
    say more.
    """
    run = runner(model, part.shapes)
    try:
        usual = next(draws_of(part.graph, part.inputs))
    except NoDraw as error:
        raise VerificationError(str(error)) from None
    if part.inputs is not None:
        return part
    part = _timed(part, run)
    try:
        run(usual.inputs)
    except REFUSALS as error:
        larger = [timed_draw(part)] if part.timed else []
        for other in (*larger, *other_draws(part.graph)):
            with suppress(*REFUSALS):
                run(other.inputs)
                return replace(part, inputs=other.inputs)
        raise VerificationError(refused_inputs(usual, error, reference_name(model))) from error
    return part


def timed(model: Any, part: Part) -> Part:
    """The part of `model`, with the first sizes at which it runs, if it runs anywhere."""
    *larger, _ = timed_sizes_of(part.graph)
    if part.inputs is None and larger:
        with suppress(FrontendError):
            return _timed(part, runner(model, part.shapes))
    return part


def _timed(part: Part, run: Callable[[Mapping[str, Array]], object]) -> Part:
    *larger, least = timed_sizes_of(part.graph)
    for sizes in larger:
        with suppress(NoDraw, *REFUSALS):
            run(next(draws_of(part.graph, sizes=sizes)).inputs)
            return replace(part, timed=sizes)
    return replace(part, timed=least)


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

    def near(inputs: Mapping[str, Array]) -> Iterable[Mapping[str, Array]]:
        return near_runner(model, part.shapes)(inputs)

    by = reference_name(model)
    verification = verify(executable, reference, exact, part.graph, calls, draws, by, near)
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
