"""Pause cyclic garbage collection while much is built: a tree, a search, a module."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """
    Pause the search for reference cycles. It would walk through all objects again and again, and
    take half of the time of reading a large file.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
