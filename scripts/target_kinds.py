"""
Write the target kinds of the installed TVM to `collage_dsl/graph/target-kinds-0.27.json`.

    python scripts/target_kinds.py            # rewrite the table
    python scripts/target_kinds.py --check    # exit 1 if it would change

Each kind has the options that a rule file can give: numbers, strings, `true`, `false` and lists of
strings. Under `devices` is the number that TVM has for the type of its device (`DLDeviceType`),
under `processors` every name that LLVM has for a processor, of whatever architecture.
"""

import argparse
import json
import sys
from pathlib import Path

import tvm
from tvm.target.codegen import llvm_get_cpu_archlist, llvm_get_targets, llvm_is_valid_cpu

OUTPUT = Path(__file__).parents[1] / "collage_dsl" / "graph" / "target-kinds-0.27.json"

TYPES = {"int": "int", "bool": "bool", "str": "str", "Array<str>": "list"}

SAID_OTHERWISE = ("kind", "from_device", "target_device_type")
"""Options that a rule file gives in another way, or that TVM sets itself."""


def options(kind: str) -> dict[str, str]:
    known = tvm.target.TargetKind.options_from_name(kind)
    found = {str(name): TYPES.get(str(type_), "") for name, type_ in known.items()}
    return {n: type_ for n, type_ in sorted(found.items()) if type_ and n not in SAID_OTHERWISE}


def device_type(kind: str) -> int:
    return int(tvm.target.Target({"kind": kind}).get_target_device_type())


def processors() -> list[str]:
    """A target of LLVM that names one of them says of which architecture it is."""
    triples = [str(name) for name in llvm_get_targets() if name not in _OF_GPUS]
    targets = [tvm.target.Target({"kind": "llvm", "mtriple": triple}) for triple in triples]
    listed = {str(name) for target in targets for name in llvm_get_cpu_archlist(target)}
    return sorted(listed | {each for each in _ALIASES if llvm_is_valid_cpu(each, "aarch64")})


_ALIASES = (
    *("apple-m1", "apple-m2", "apple-m3", "apple-a18", "apple-latest", "cyclone", "cobalt-100"),
    *(f"apple-s{number}" for number in range(4, 11)),
)
"""Names of LLVM's `AArch64Processors.td` that are other names of a processor: it lists none."""

_OF_GPUS = ("r600", "amdgcn", "nvptx", "nvptx64", "spirv", "spirv32", "spirv64")


def to_json() -> str:
    """The table with one kind on each line, so that diffs are readable."""
    version = ".".join(tvm.__version__.split(".")[:2])
    kinds = sorted(map(str, tvm.target.Target.list_kinds()))
    body = ",\n".join(f"    {json.dumps(kind)}: {json.dumps(options(kind))}" for kind in kinds)
    devices = json.dumps({kind: device_type(kind) for kind in kinds})
    return (
        f'{{\n  "tvm": {json.dumps(version)},\n  "kinds": {{\n{body}\n  }},\n'
        f'  "devices": {devices},\n  "processors": {json.dumps(processors())}\n}}\n'
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the target kinds of the installed TVM.")
    parser.add_argument("--check", action="store_true", help="only say whether it would change")
    text = to_json()
    if parser.parse_args().check:
        return int(text != OUTPUT.read_text("utf-8"))
    OUTPUT.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
