"""
Read the shipped table of TVM's target kinds and their options.

`scripts/target_kinds.py` makes the table from an installed TVM.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from collage_dsl.graph.operators import TVM_VERSION


@cache
def target_kinds() -> Mapping[str, Mapping[str, str]]:
    """By kind, its options and their types: "int", "bool", "str" or "list", a list of strings."""
    path = Path(__file__).with_name(f"target-kinds-{TVM_VERSION}.json")
    found: Mapping[str, Mapping[str, str]] = json.loads(path.read_text("utf-8"))["kinds"]
    return found
