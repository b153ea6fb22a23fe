"""
Write the table of ONNX operators to `collage_dsl/graph/onnx-operators.json`.

    python scripts/onnx_operator_table.py            # rewrite the table
    python scripts/onnx_operator_table.py --check    # exit 1 if it would change

The operators of ONNX come from the schemas of the installed onnx package: the operands of the
newest version, and the attributes and the greatest number of outputs of all versions. Those of
`com.microsoft` come from onnxruntime. The possible values of attributes are written here, because
schemas have them in their documentation only.
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


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


VALUES: dict[str, tuple[str, ...]] = {
    "auto_pad": words("NOTSET SAME_UPPER SAME_LOWER VALID"),
    "direction": words("forward reverse bidirectional"),
    "kernel_type": words("LINEAR POLY RBF SIGMOID"),
    "padding_mode": words("zeros border reflection"),
    "post_transform": words("NONE SOFTMAX LOGISTIC SOFTMAX_ZERO PROBIT"),
    "round_mode": words("up down nearest"),
    "BitShift direction": words("RIGHT LEFT"),
    "CastMap cast_to": words("TO_FLOAT TO_STRING TO_INT64"),
    "CastMap map_form": words("DENSE SPARSE"),
    "CausalConvWithState activation": words("silu swish none"),
    "DepthToSpace mode": words("DCR CRD"),
    "Gelu approximate": words("none tanh"),
    "GridSample mode": words("linear nearest cubic bilinear bicubic"),
    "ImageDecoder pixel_format": words("RGB BGR Grayscale"),
    "LinearAttention update_rule": words("linear gated delta gated_delta"),
    "Momentum mode": words("nesterov standard"),
    "NegativeLogLikelihoodLoss reduction": words("none sum mean"),
    "Normalizer norm": words("MAX L1 L2"),
    "Pad mode": words("constant reflect edge wrap"),
    "Resize coordinate_transformation_mode": words(
        "half_pixel half_pixel_symmetric pytorch_half_pixel align_corners asymmetric "
        "tf_half_pixel_for_nn tf_crop_and_resize"
    ),
    "Resize keep_aspect_ratio_policy": words("stretch not_larger not_smaller"),
    "Resize mode": words("nearest linear cubic"),
    "Resize nearest_mode": words("round_prefer_floor round_prefer_ceil floor ceil"),
    "RoiAlign coordinate_transformation_mode": words("half_pixel output_half_pixel"),
    "RoiAlign mode": words("avg max"),
    "ScatterElements reduction": words("none add mul max min"),
    "ScatterND reduction": words("none add mul max min"),
    "SoftmaxCrossEntropyLoss reduction": words("none sum mean"),
    "SpaceToDepth mode": words("DCR CRD"),
    "StringNormalizer case_change_action": words("LOWER UPPER NONE"),
    "TensorScatter mode": words("linear circular"),
    "TfIdfVectorizer mode": words("TF IDF TFIDF"),
    "TreeEnsembleRegressor aggregate_function": words("AVERAGE SUM MIN MAX"),
    "Upsample mode": words("nearest linear bilinear"),
}
"""
The possible values of string attributes, by attribute, or by operator of ONNX and attribute, in
all versions of an operator. They come from the documentation of the schemas.
"""


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
    values = {name: known for name in attrs if (known := values_of(newest, name, attrs[name]))}
    return {
        "operands": None if is_variadic else names,
        "optional": 0 if is_variadic else max(0, len(names) - least),
        "attrs": attrs,
        "defaults": found,
        **({"values": values} if values else {}),
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


def values_of(schema: Any, name: str, type_: str) -> tuple[str, ...]:
    """The values that an attribute may have; empty if they are not known."""
    if type_ != TYPES["STRING"]:
        return ()
    named = VALUES.get(f"{schema.name} {name}") if schema.domain != MICROSOFT else None
    return named or VALUES.get(name, ())


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
