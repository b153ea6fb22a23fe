"""End a command soon after a signal asked for that, whatever it is doing."""

import os
import signal
import time
from threading import Lock, Thread
from typing import Self

from collage_dsl.cli.output import tell
from collage_dsl.scratch import remove_temporary_files

_SAID = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "terminated: the terminal was closed",
}
SIGNALS = tuple(_SAID)
"""What ends a command: an interrupt from the keyboard, `kill`, and the end of its terminal."""

_GRACE = 0.5
"""The seconds that a command has to end by itself."""


class Ended(KeyboardInterrupt):
    """
    A signal ends the command. If a plain `KeyboardInterrupt` has once left `exec`, as it may during
    an import, Python does not exit with the code that it is given: it ends itself by SIGINT.
    """


class Interrupt:
    """
    Ends this process at most a moment after one of `SIGNALS` in the `with` block, unless it ignores
    that signal.

    Python raises `Ended` only when the main thread runs Python code again, which a
    library can delay for a long time. Another thread waits for that, but not for long.
    """

    def __init__(self) -> None:
        self.happened = False
        self._signal = signal.SIGINT
        self._unsaid = Lock()

    @property
    def code(self) -> int:
        """The exit code, as shells report it for a process that the signal has ended."""
        return 128 + self._signal

    def __enter__(self) -> Self:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        found = {each: signal.getsignal(each) for each in SIGNALS}
        usual = signal.SIG_DFL, signal.default_int_handler
        self._handlers = {each: handler for each, handler in found.items() if handler in usual}
        for each in self._handlers:
            # A library may turn the exception into another before the thread has noted the signal.
            signal.signal(each, self._raise)
        Thread(target=self._wait, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._handlers.items():
            signal.signal(each, handler)
        signal.set_wakeup_fd(self._before)
        os.close(self._writer)

    def _raise(self, number: int, _: object) -> None:
        self._note(number)
        raise Ended

    def _note(self, number: int) -> None:
        if not self.happened:
            self._signal = signal.Signals(number)
        self.happened = True

    def say(self) -> None:
        """Tell the user, once."""
        if self._unsaid.acquire(blocking=False):
            tell(_SAID[self._signal])

    def _wait(self) -> None:
        with open(self._reader, "rb", buffering=0) as numbers:
            while (number := numbers.read(1)) and number[0] not in self._handlers:
                pass
        if not number:
            return
        self._note(number[0])
        time.sleep(_GRACE)
        self.say()
        remove_temporary_files()
        os._exit(self.code)
