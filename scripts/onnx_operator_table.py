"""
Write the table of ONNX operators to `collage_dsl/graph/onnx-operators.json`.

    python scripts/onnx_operator_table.py            # rewrite the table
    python scripts/onnx_operator_table.py --check    # exit 1 if it would change

The operators of ONNX come from the schemas of the installed onnx package: the operands of the
newest version, and the attributes and the greatest number of outputs of all versions. Those of
`com.microsoft` come from onnxruntime.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import onnx

from collage_dsl.graph.onnx_node import onnx_operator
from collage_dsl.offline import onnxruntime, onnxruntime_pybind11_state

OUTPUT = Path(__file__).parents[1] / "collage_dsl" / "graph" / "onnx-operators.json"

MICROSOFT = "com.microsoft"

TYPES = {
    "INT": "int",
    "FLOAT": "float",
    "STRING": "str",
    "INTS": "ints",
    "FLOATS": "floats",
}
"""How the operator table calls the types of attributes. Those of others cannot be matched."""


def rows() -> dict[str, dict[str, Any]]:
    versions: dict[tuple[str, str], list[Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        versions.setdefault((schema.domain, schema.name), []).append(schema)
    for schema in onnxruntime_pybind11_state.get_all_operator_schema():
        if schema.domain == MICROSOFT:
            versions.setdefault((schema.domain, schema.name), []).append(schema)
    return {
        onnx_operator(domain, name): row(schemas)
        for (domain, name), schemas in sorted(versions.items())
    }


def row(schemas: Iterable[Any]) -> dict[str, Any]:
    ordered = sorted(schemas, key=lambda schema: schema.since_version)
    newest = ordered[-1]
    names = [operand.name for operand in newest.inputs]
    is_variadic = bool(names) and _option(newest.inputs[-1].option) == "Variadic"
    attrs = {name: type_ for schema in ordered for name, type_ in attributes(schema)}
    least = min(schema.min_input for schema in ordered)
    found = {n: value for n, value in defaults(newest) if n in attrs}
    always = set.intersection(*map(required, ordered)) | found.keys()
    may_be_none = [name for name in attrs if name not in always]
    most = max(schema.max_output for schema in ordered)
    return {
        "operands": None if is_variadic else names,
        "optional": 0 if is_variadic else max(0, len(names) - least),
        "attrs": attrs,
        "defaults": found,
        **({"results": most} if most < _ANY_NUMBER else {}),
        **({"may_be_none": may_be_none} if may_be_none else {}),
    }


_ANY_NUMBER = 2**31 - 1
"""The number of outputs of an operator that has any number of them."""


def attributes(schema: Any) -> Iterator[tuple[str, str]]:
    for name, attribute in sorted(schema.attributes.items()):
        type_ = TYPES.get(_option(attribute.type))
        if type_ is not None:
            yield name, type_


def required(schema: Any) -> set[str]:
    return {name for name, attribute in schema.attributes.items() if attribute.required}


def defaults(schema: Any) -> Iterator[tuple[str, Any]]:
    for name, attribute in sorted(schema.attributes.items()):
        value = getattr(attribute, "default_value", None)
        if value is None:  # onnxruntime gives the message as bytes
            value = onnx.AttributeProto.FromString(attribute._default_value)
        if value.type:
            found = onnx.helper.get_attribute_value(value)
            yield name, found.decode() if isinstance(found, bytes) else found


def _option(value: object) -> str:
    """The name of a member of an enumeration: `Variadic`."""
    return str(value).rpartition(".")[2]


def written(operators: dict[str, dict[str, Any]]) -> str:
    """JSON with one line for each operator."""
    head = f'"onnx": "{onnx.__version__}",\n"onnxruntime": "{onnxruntime.__version__}",\n'
    lines = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in operators.items())
    return "{\n" + head + '"operators": {\n' + ",\n".join(lines) + "\n}\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    text = written(rows())
    if parser.parse_args().check:
        return int(OUTPUT.read_text("utf-8") != text)
    OUTPUT.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
