"""Delay what signals do while foreign code runs."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def delayed_signals() -> Iterator[None]:
    """
    Signals that end a program have their effect after the block. The search of TVM 0.27 calls
    Python, and the process crashes if an exception, such as `KeyboardInterrupt`, comes of that.
    """
    if current_thread() is not main_thread():  # where no signal becomes an exception
        yield
        return
    came: list[int] = []
    found = {each: signal.getsignal(each) for each in _SIGNALS}
    handlers = {each: handler for each, handler in found.items() if callable(handler)}
    for each in handlers:
        signal.signal(each, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
        for number in came[:1]:
            signal.raise_signal(number)
