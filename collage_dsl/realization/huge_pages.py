"""
Put weights on huge pages: the processor looks up fewer addresses while it reads them.

Linux does this by itself only if its administrator has chosen `always` for transparent huge pages.
With `madvise`, each program asks for its own memory.
"""

import ctypes
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import tvm

_ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_SIZE = _ENABLED.with_name("hpage_pmd_size")
_MADV_COLLAPSE = 25
"""Since Linux 6.1: an older one refuses it."""


def put_on_huge_pages(tensors: Iterable[Any]) -> None:
    """
    Ask Linux to move what is on the same huge pages as `tensors` of the CPU to such pages now.

    The contents and addresses stay the same. What is near the tensors is moved too, which is mostly
    other weights. Nothing is moved where the system has no huge pages, or never wants them.
    """
    size = _huge_page_size()
    if not size:
        return
    pages = {
        page
        for tensor in tensors
        if tensor.device == tvm.cpu()
        for page in range(
            tensor.data_ptr() // size, (tensor.data_ptr() + _bytes(tensor) - 1) // size + 1
        )
    }
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for page in sorted(pages):
        madvise(page * size, size, _MADV_COLLAPSE)


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.dtype.itemsize)


@cache
def _huge_page_size() -> int:
    """The bytes of a transparent huge page; 0 where there are none."""
    try:
        return 0 if "[never]" in _ENABLED.read_text() else int(_SIZE.read_text())
    except (OSError, ValueError):
        return 0
