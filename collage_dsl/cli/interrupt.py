"""End a command soon after it was interrupted from the keyboard, whatever it is doing."""

import os
import signal
import time
from threading import Lock, Thread
from typing import Self

from collage_dsl.cli.failure import INTERRUPTED
from collage_dsl.cli.output import tell

_GRACE = 0.5
"""The seconds that a command has to end by itself."""


class Interrupt:
    """
    Ends this process at most a moment after a SIGINT in the `with` block.

    Python raises `KeyboardInterrupt` only when the main thread runs Python code again, which a
    library can delay for a long time. Another thread waits for that, but not for long.
    """

    def __init__(self) -> None:
        self.happened = False
        self._unsaid = Lock()

    def __enter__(self) -> Self:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        # A library may turn the exception into another before the thread has noted the signal.
        self._handler = signal.getsignal(signal.SIGINT)
        if self._handler is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._raise)
        Thread(target=self._wait, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._handler is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handler)
        signal.set_wakeup_fd(self._before)
        os.close(self._writer)

    def _raise(self, *_: object) -> None:
        self.happened = True
        raise KeyboardInterrupt

    def say(self) -> None:
        """Tell the user, once."""
        if self._unsaid.acquire(blocking=False):
            tell("interrupted")

    def _wait(self) -> None:
        with open(self._reader, "rb", buffering=0) as numbers:
            while (number := numbers.read(1)) and number[0] != signal.SIGINT:
                pass
        if not number:
            return
        self.happened = True
        time.sleep(_GRACE)
        self.say()
        os._exit(INTERRUPTED)
