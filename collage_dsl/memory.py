"""While a tree or a search is built up, nothing of it can be garbage."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """
    Without the search for reference cycles, which would walk all that is there again and again:
    half of the time of reading a large file.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
