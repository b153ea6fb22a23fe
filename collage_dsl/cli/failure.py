"""Turn an exception into a message for the user and an exit code."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from collage_dsl.caches import cache_folder
from collage_dsl.printable import printable, printable_lines
from collage_dsl.reading import cause_at, cause_of, other_than_file

WRONG = 1
"""Exit code: something is wrong in the given files."""

CANNOT = 2
"""Exit code: the command could not run."""

_GIVEN = {
    "ArraysError",
    "DamagedFolderError",
    "ExchangeError",
    "FormError",
    "FrontendError",
    "InputError",
    "LockError",
    "NoExampleError",
    "ReportError",
    "RuleError",
    "TableError",
    "TargetError",
    "UncoveredError",
    "UnsupportedRelax",
    "VerificationError",
}
"""Exceptions about the given files. Only their names, because their modules may need TVM."""

_ENVIRONMENT = {
    "BackendError",
    "BuildError",
    "CannotTune",
    "CommandError",
    "CompileError",
    "CostError",
    "EngineError",
    "ExecutableError",
    "MeasuringError",
    "NoCompiler",
    "OutputError",
    "PredicateError",
    "RemoteError",
    "ShapesError",
    "SolverError",
    "SourceError",
    "StoreError",
    "StrategyError",
    "UnknownBackend",
    "UnknownNode",
    "UnknownTarget",
    "UnreadableError",
    "UnreadableModelError",
}

_ADVICE = {
    "UnknownBackend": "install the package that declares it; `collage plan` needs no backend if "
    "`--costs` gives the costs of its kernels",
}
"""What to do on the command line, where the message of an exception does not say it."""

_READ_FROM_FILES = {"ArraysError", "LockError", "TableError"}
"""Exceptions about given files whose cause says if the file cannot be read at all."""

_OF_LINES = {"CompileError", "UncoveredError", "VerificationError"}
"""Exceptions with a message of several lines."""

_EXTRA = ("tvm", "tvm_ffi", "onnx", "onnxruntime", "numpy", "scipy")


class CommandError(Exception):
    """The arguments of a command ask for something that does not exist or is not possible."""


def existing(path: Path) -> Path:
    """`path`, if it is a file. Raises `CommandError`."""
    if not path.is_file():
        other = other_than_file(path) or "there is no such file"
        raise CommandError(f"cannot read {path}: {other}")
    return path


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name `path` if the block cannot write it."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"cannot write {path}: {cause_at(path, error)}") from error


@dataclass(frozen=True, slots=True)
class Failure:
    """A message of one or a few lines, and an exit code."""

    message: str
    code: int


def explained(error: Exception) -> Failure:
    """The failure to report for `error`. An unexpected one is reported as a defect of ours."""
    names = [each.__name__ for each in type(error).__mro__]
    known = next((name for name in names if name in _GIVEN | _ENVIRONMENT), "")
    cause = error.__cause__ if known in _READ_FROM_FILES else None
    is_unreadable = isinstance(cause, OSError | UnicodeDecodeError)
    if known:
        code = WRONG if known in _GIVEN and not is_unreadable else CANNOT
        return Failure(_message(error), code)
    if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] in _EXTRA:
        return Failure(
            f"error: this command needs {error.name}, which is not installed; "
            "install it with: pip install 'collage_dsl[tvm]'",
            CANNOT,
        )
    is_of_home = isinstance(error, RuntimeError) and "home directory" in str(error)
    if is_of_home and (fault := _no_cache()):  # raised by TVM, which has a cache of its own
        return Failure(f"error: {fault}", CANNOT)
    if isinstance(error, MemoryError):
        return Failure("error: there is not enough memory", CANNOT)
    if isinstance(error, OSError):
        at = f"cannot use {error.filename}: " if error.filename else ""
        return Failure(f"error: {printable(at + cause_of(error))}", CANNOT)
    first = printable((str(error).strip().splitlines() or [""])[0])
    return Failure(
        f"internal error: {type(error).__name__}: {first}\n"
        "This is a defect of collage_dsl; `collage --traceback …` shows where it comes from.",
        CANNOT,
    )


def _no_cache() -> str:
    """Why this user has no folder for caches; empty if there is one."""
    try:
        cache_folder()
    except OSError as error:
        return cause_of(error)
    return ""


def with_options(text: str) -> str:
    """
    `text` for the command line: `--shape x=1,3` in place of what other callers read in a message,
    the argument `shapes` (`x=1,3`).
    """
    return _ARGUMENT.sub(_option, text)


_ARGUMENT = re.compile(r"the argument `(\w+)`(?: \(`([^`]*)`\))?")

OPTIONS = {
    "allow_extern": "--allow-extern",
    "inputs": "--inputs FILE.npz",
    "records": "--records",
    "shapes": "--shape",
    "store": "--store",
}
"""The options for the arguments of calls that messages name."""


def _option(found: re.Match[str]) -> str:
    name, value = found.groups()
    if name not in OPTIONS:
        return found[0]
    return f"`{OPTIONS[name]} {value}`" if value else f"`{OPTIONS[name]}`"


def _message(error: Exception) -> str:
    name, text = type(error).__name__, str(error)
    if name == "RuleError":
        return text
    text = with_options(text)
    if name in _ADVICE:
        text = f"{text}: {_ADVICE[name]}"
    return f"error: {printable_lines(text) if name in _OF_LINES else printable(text)}"
