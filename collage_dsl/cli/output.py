"""Write to the standard streams. What is written for people is escaped here."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, BinaryIO, TextIO, cast

from collage_dsl.printable import printable, printable_lines


class OutputError(Exception):
    """The answer cannot be written to standard output."""


class ReaderGoneError(Exception):
    """The program that reads the answer wants no more of it, as in `collage ops | head`."""


def show(text: str) -> None:
    """Write text for people to standard output."""
    write(printable_lines(text))


def write(text: str) -> None:
    """Write exactly `text` to standard output."""
    with _standard_output() as stream:
        stream.write(text)


def write_utf8(text: str) -> None:
    """Write exactly `text`, the content of a file, whatever the encoding of the terminal."""
    with _standard_output() as stream:
        stream.flush()
        stream.buffer.write(text.encode("utf-8"))


@contextmanager
def others_on_standard_error() -> Iterator[None]:
    """Let plug-ins and libraries print to standard error, so that they do not break an answer."""
    with redirect_stdout(cast(TextIO, _OfOthers(_answers()))):
        yield


class _OfOthers:
    """Standard error, in place of the standard output that `answers` go to."""

    def __init__(self, answers: TextIO) -> None:
        self.answers = answers

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)


def _answers() -> TextIO:
    """Standard output as it is outside `others_on_standard_error`."""
    return sys.stdout.answers if isinstance(sys.stdout, _OfOthers) else sys.stdout


def binary_output() -> BinaryIO:
    """Standard output, for a protocol."""
    return _answers().buffer


def flush() -> None:
    """Write what is in the buffer of standard output. Raises as `write` does."""
    if sys.stdout.closed:  # The language server closes it when an editor leaves.
        return
    with _standard_output() as stream:
        stream.flush()


def tell(text: str) -> None:
    """Write lines, and a line break, to standard error."""
    try:
        sys.stderr.write(printable_lines(text) + "\n")
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)


def complain(error: object) -> None:
    """Write what is wrong to standard error, in one line."""
    tell(f"error: {printable(str(error))}")


def open_standard_streams() -> None:
    """
    Put the null device in place of closed standard input and error, so that no file that is
    opened later gets their numbers, and with that what libraries print. Standard output becomes
    one that cannot be written to. A character that an encoding lacks is written as an escape.
    """
    for number, flags in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def _standard_output() -> Iterator[TextIO]:
    stream = _answers()
    try:
        yield stream
    except BrokenPipeError:
        _discard(stream)
        raise ReaderGoneError from None
    except OSError as problem:
        _discard(stream)
        reason = (problem.strerror or type(problem).__name__).lower()
        raise OutputError(f"cannot write to standard output: {reason}") from None


def _discard(stream: TextIO) -> None:
    """Let what is left in the buffer of `stream` go nowhere, also when Python ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
