"""What each failure means to whoever typed the command."""

from dataclasses import dataclass

WRONG = 1
"""Exit code: something is wrong in what was given."""

CANNOT = 2
"""Exit code: the command could not run."""

_GIVEN = {
    "FormError",
    "FrontendError",
    "RuleError",
    "TableError",
    "TargetError",
    "UncoveredError",
    "UnsupportedRelax",
    "VerificationError",
}
"""Exceptions about what was given, by name: their modules may need TVM, which may be missing."""

_ENVIRONMENT = {
    "BuildError",
    "CommandError",
    "CompileError",
    "CostError",
    "ExecutableError",
    "MeasuringError",
    "NoCompiler",
    "PredicateError",
    "SolverError",
    "StoreError",
    "UnknownBackend",
    "UnknownTarget",
    "UnreadableError",
}

_EXTRA = ("tvm", "tvm_ffi", "onnx", "onnxruntime", "numpy", "scipy")


class CommandError(Exception):
    """A command was asked for something that does not exist or cannot be."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A message of one or a few lines, and an exit code."""

    message: str
    code: int


def explained(error: Exception) -> Failure:
    """What to tell of `error`. One that is not expected is a defect of ours, and says so."""
    name = type(error).__name__
    if name in _GIVEN:
        return Failure(_message(error), WRONG)
    if name in _ENVIRONMENT:
        return Failure(_message(error), CANNOT)
    if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] in _EXTRA:
        return Failure(
            f"error: this command needs {error.name}, which is not installed; "
            "install it with: pip install 'collage_dsl[tvm]'",
            CANNOT,
        )
    if isinstance(error, OSError):
        return Failure(f"error: {error}", CANNOT)
    first = (str(error).strip().splitlines() or [""])[0]
    return Failure(
        f"internal error: {name}: {first}\n"
        "This is a defect of collage_dsl; `collage --traceback …` shows where it comes from.",
        CANNOT,
    )


def _message(error: Exception) -> str:
    text = str(error)
    return text if type(error).__name__ == "RuleError" else f"error: {text}"
