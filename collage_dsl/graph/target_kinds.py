"""
Read the shipped table of TVM's target kinds, their options and devices, and of processors.

`scripts/target_kinds.py` makes the table from an installed TVM.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from collage_dsl.graph.operators import TVM_VERSION


@cache
def _table() -> Mapping[str, Any]:
    path = Path(__file__).with_name(f"target-kinds-{TVM_VERSION}.json")
    found: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
    return found


@cache
def target_kinds() -> Mapping[str, Mapping[str, str]]:
    """By kind, its options and their types: "int", "bool", "str" or "list", a list of strings."""
    found: Mapping[str, Mapping[str, str]] = _table()["kinds"]
    return found


@cache
def processors() -> tuple[str, ...]:
    """LLVM's names for processors of all architectures, sorted."""
    return tuple(_table()["processors"])


def share_device(kind: str, other: str) -> bool:
    """
    Whether targets of two kinds run on one type of device, as `llvm` and `c` do. Of a kind that
    TVM does not have, only targets of that kind do.
    """
    devices = _table()["devices"]
    return kind == other or (kind in devices and devices[kind] == devices.get(other))
