"""Less cyclic garbage collection while much is built: a tree, a search, a module."""

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


@contextmanager
def seldom_collected() -> Iterator[None]:
    """
    Search for reference cycles less often, where many objects are made that stay. Unlike in a
    pause, what kernels leave behind as they are built and timed is still found.
    """
    usual = gc.get_threshold()
    if usual[0]:
        gc.set_threshold(_NEW, _YOUNG, usual[2])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


_NEW, _YOUNG = 50_000, 20
"""After so many new objects these are searched, and after so many times the younger ones too."""
