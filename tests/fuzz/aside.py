"""Do something in a copy of this process, which it may end, or fill with a lock."""

import os
import pickle
import signal
from collections.abc import Callable
from typing import Any

Found = tuple[str, Any]
"""What was found: `("made", RESULT)`, or `("raised", TEXT)`, or `("ended", "")`."""


def aside(function: Callable[[], Any], seconds: float) -> Found:
    """
    What `function` returns or raises in a copy of this process, which takes at most so many
    `seconds` of CPU time. Native code may end the copy, but not this process.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _work(function, writing, seconds)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        content = pipe.read()
    os.waitpid(child, 0)
    if not content:
        return "ended", ""
    found: Found = pickle.loads(content)
    return found


def _work(function: Callable[[], Any], writing: int, seconds: float) -> None:
    """Never returns."""
    try:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            found: Found = "made", function()
        except BaseException as error:
            found = "raised", f"{type(error).__name__}: {error}"
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(pickle.dumps(found))
    finally:
        os._exit(0)
