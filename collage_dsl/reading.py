"""Read files that may be anything: endless, or pipes that nobody writes to."""

import errno
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

MOST_BYTES = 1 << 20
"""The longest text that is read, where nothing else is said."""

_LOOP = "it is a link that leads to itself"


def real_path(path: str | Path) -> Path:
    """
    The absolute path, with all links followed as far as they lead somewhere. `Path.resolve` raises
    for a link that leads to itself.
    """
    return Path(os.path.realpath(path))


def content_of(path: str | Path, most: int) -> bytes:
    """
    The first `most` bytes of the file at `path`. Raises OSError where it cannot be read, and for a
    pipe: one that nobody writes to would be waited for.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            raise OSError(None, "it is a pipe", str(path))
        return file.read(most)


def other_than_file(path: Path) -> str:
    """What is at `path` in place of a file; empty for a file, and if nothing is there."""
    if path.is_file():
        return ""
    if not path.exists():
        return _LOOP if _leads_to_itself(path) else ""
    if path.is_dir():
        return "it is a folder"
    return "it is a pipe" if path.is_fifo() else "it is a device or a socket, not a file"


def _leads_to_itself(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def cause_of(error: Exception) -> str:
    """
    Why a file cannot be read, written or opened, without the path, which a message names already.
    """
    match error:
        case UnicodeDecodeError():
            return "it is no text in UTF-8"
        case FileNotFoundError():
            return "there is no such file"
        case IsADirectoryError():
            return "it is a folder"
        case OSError(errno=errno.ELOOP):
            return _LOOP
        case OSError(errno=int(number), strerror=str(said)) if said == os.strerror(number):
            return said.lower()
        case OSError():
            return error.strerror or str(error) or type(error).__name__
    return str(error)


def cause_at(path: Path, error: OSError) -> str:
    """Why nothing can be written at `path`."""
    if isinstance(error, FileNotFoundError):
        folder = real_path(path).parent
        return f"{'nothing can be made in' if folder.exists() else 'there is no'} folder {folder}"
    return cause_of(error)


def fault_in_words(fault: Mapping[str, Any]) -> str:
    """What is wrong, of one of the errors of a pydantic `ValidationError`."""
    match fault["type"]:
        case "json_invalid":
            return "it is not JSON"
        case "missing":
            return "this field is missing"
        case "extra_forbidden":
            return "there is no field of this name"
        case "too_short" | "string_too_short" if fault["ctx"]["min_length"] == 1:
            return "this must not be empty"
        case "model_type" | "model_attributes_type" | "dict_type":
            return "an object with fields is needed here"
        case "value_error":  # of a validator of ours
            return str(fault["ctx"]["error"])
    return str(fault["msg"]).replace("Input should", "this should")


def first_fault(error: Any, in_words: Callable[[Mapping[str, Any]], str] = fault_in_words) -> str:
    """Where in a file the first fault of a pydantic `ValidationError` is, and what it is."""
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    said = in_words(first)
    return f"{place}: {said}" if place else said


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def text_of(path: str | Path, most: int = MOST_BYTES) -> str:
    """The whole text of the file at `path`. Raises OSError and ValueError."""
    content = content_of(path, most + 1)
    if len(content) > most:
        raise ValueError(f"it has more than {most} bytes")
    return content.decode("utf-8")


def is_in_utf8(path: str | Path) -> bool:
    """Whether the path is a text: libraries in C++ take no other, though files may have others."""
    return not any("\ud800" <= each <= "\udfff" for each in str(path))
