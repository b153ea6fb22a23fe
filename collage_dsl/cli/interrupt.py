"""End a command soon after it was interrupted from the keyboard, whatever it is doing."""

import os
import signal
import time
from threading import Lock, Thread

from collage_dsl.cli.failure import INTERRUPTED
from collage_dsl.cli.output import tell

_GRACE = 0.5
"""The seconds that a command has to end by itself."""


class Interrupt:
    """
    Ends this process at most a moment after SIGINT.

    Python raises `KeyboardInterrupt` only when the main thread runs Python code again, which a
    library can delay for a long time. Another thread waits for that, but not for long.
    """

    def __init__(self) -> None:
        self.happened = False
        self._unsaid = Lock()
        self._reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        Thread(target=self._wait, daemon=True).start()

    def say(self) -> None:
        """Tell the user, once."""
        if self._unsaid.acquire(blocking=False):
            tell("interrupted")

    def _wait(self) -> None:
        while os.read(self._reader, 1)[0] != signal.SIGINT:
            pass
        self.happened = True
        time.sleep(_GRACE)
        self.say()
        os._exit(INTERRUPTED)
