"""
Write TVM's pattern tables to `collage_dsl/language/resolve/pattern-tables-0.27.json`.

    python scripts/pattern_tables.py            # rewrite the tables
    python scripts/pattern_tables.py --check    # exit 1 if they would change

Each registered dataflow pattern becomes a pattern of the language, in the form that
`collage_dsl.language.resolve.pattern_tables` reads. One that the language cannot express, or that
no call can match, is kept with the reason.
"""

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import tvm
from tvm.relax.backend.pattern_registry import get_patterns_with_prefix

from collage_dsl.targets.translation import rows

RESOLVE = Path(__file__).parents[1] / "collage_dsl" / "language" / "resolve"
OUTPUT = RESOLVE / "pattern-tables-0.27.json"

TABLES = {
    "cutlass": ("cuda.cutlass", "cutlass"),
    "cublas": ("cuda.cublas", "cublas"),
    "cudnn": ("cuda.cudnn", "cudnn"),
    "tensorrt": ("contrib.tensorrt", "tensorrt"),
    "clml": ("adreno.clml", "openclml"),
    "coreml": ("metal.coreml", "coreml"),
    "nnapi": ("contrib.nnapi", "nnapi"),
    "hipblas": ("rocm.hipblas", "hipblas"),
    "example_npu": ("contrib.example_npu", "example_npu"),
}
"""For each table, the module below `tvm.relax.backend` that registers it, and its name prefix."""

FIRST_COMES_FIRST = frozenset({"clml"})
"""
The tables whose partitioner prefers the pattern registered first. The other partitioners use the
order of the registry, which returns the last registered pattern first.
"""


def registered(table: str) -> list[Any]:
    """The patterns of a table in the order in which they were registered."""
    module, prefix = TABLES[table]
    importlib.import_module(f"tvm.relax.backend.{module}")
    return list(reversed(list(get_patterns_with_prefix(f"{prefix}."))))


def to_json() -> str:
    """The tables with one pattern on each line, so that diffs are readable."""
    tables = []
    for table, (module, prefix) in TABLES.items():
        lines = ",\n".join(f"      {json.dumps(each)}" for each in rows(registered(table)))
        order = "first" if table in FIRST_COMES_FIRST else "last"
        head = f'"module": "tvm.relax.backend.{module}", "prefix": "{prefix}", "prefers": "{order}"'
        tables.append(f'    "{table}": {{\n      {head}, "patterns": [\n{lines}\n    ]}}')
    version = ".".join(tvm.__version__.split(".")[:2])
    body = ",\n".join(tables)
    return f'{{\n  "tvm": {json.dumps(version)},\n  "tables": {{\n{body}\n  }}\n}}\n'


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the pattern tables of the installed TVM.")
    parser.add_argument("--check", action="store_true", help="only say whether they would change")
    text = to_json()
    if parser.parse_args().check:
        return int(text != OUTPUT.read_text("utf-8"))
    OUTPUT.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
