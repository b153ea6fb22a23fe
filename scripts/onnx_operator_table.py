"""
Write the table of ONNX operators to `collage_dsl/graph/onnx-operators.json`.

    PYTHONPATH=. python scripts/onnx_operator_table.py            # rewrite the table
    PYTHONPATH=. python scripts/onnx_operator_table.py --check    # exit 1 if it would change

The operators of ONNX come from the schemas of the installed onnx package: the operands of the
newest version, and their dtypes, the attributes and the greatest number of outputs of all
versions. Those of `com.microsoft` come from onnxruntime. The possible values of attributes are
written here, because schemas have them in their documentation only. What becomes of nodes in a
model is tried (`onnx_forms.py`), which needs TVM.
"""

import argparse
import json
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import permutations, zip_longest
from pathlib import Path
from typing import Any

import onnx
from numpy import broadcast_shapes
from onnx_forms import forms

from collage_dsl.graph.floats import as_written
from collage_dsl.graph.onnx_node import onnx_operator
from collage_dsl.graph.types import dtype_names, long_dtype, short_dtype
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


FUSED_WITH_CONV = words("Relu Tanh Sigmoid LeakyRelu Clip HardSigmoid HardSwish")
"""What onnxruntime fuses with a convolution."""


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
    "com.microsoft.CausalConvWithState activation": words("silu swish none"),
    "com.microsoft.CDist metric": words(
        "braycurtis canberra chebyshev cityblock correlation cosine dice euclidean hamming jaccard "
        "jensenshannon kulsinski mahalanobis matching minkowski rogerstanimoto russellrao "
        "seuclidean sokalmichener sokalsneath sqeuclidean wminkowski yule"
    ),
    "com.microsoft.CropAndResize mode": words("bilinear nearest"),
    "com.microsoft.FusedConv activation": FUSED_WITH_CONV,
    "com.microsoft.FusedGemm activation": words(
        "Celu Elu HardSigmoid LeakyRelu ParametricSoftplus Relu ScaledTanh Selu Sigmoid Softplus "
        "Softsign Tanh ThresholdedRelu"
    ),
    "com.microsoft.GatedDeltaNet update_rule": words("linear gated delta gated_delta"),
    "com.microsoft.GatedRMSNorm activation": words("silu swish sigmoid"),
    "com.microsoft.GemmFloat8 activation": words("RELU GELU NONE"),
    "com.microsoft.GridSample mode": words("bilinear nearest bicubic"),
    "com.microsoft.GroupQueryAttention k_quant_type": words("NONE PER_TENSOR PER_CHANNEL"),
    "com.microsoft.GroupQueryAttention v_quant_type": words("NONE PER_TENSOR PER_CHANNEL"),
    "com.microsoft.LinearAttention update_rule": words("linear gated delta gated_delta"),
    "com.microsoft.MoE activation_type": words("relu gelu silu swiglu identity"),
    "com.microsoft.NhwcFusedConv activation": FUSED_WITH_CONV,
    "com.microsoft.QMoE activation_type": words("relu gelu silu swiglu identity"),
    "com.microsoft.QMoE quant_type": words("int fp4 nvfp4 fp8 wfp4afp8"),
    "com.microsoft.VarlenCausalConvWithState activation": words("silu swish none"),
}
"""
The possible values of string attributes, by attribute, or by operator and attribute, in all
versions of an operator. They come from the documentation of the schemas, and those of activations
that onnxruntime fuses from trying which nodes it accepts.
"""


def rows(only: Collection[str] = ()) -> dict[str, dict[str, Any]]:
    """What the table has, of all operators, or `only` of these."""
    versions: dict[tuple[str, str], list[Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        versions.setdefault((schema.domain, schema.name), []).append(schema)
    for schema in onnxruntime_pybind11_state.get_all_operator_schema():
        if schema.domain == MICROSOFT:
            versions.setdefault((schema.domain, schema.name), []).append(schema)
    found = {
        onnx_operator(domain, name): row(schemas)
        for (domain, name), schemas in sorted(versions.items())
        if not only or onnx_operator(domain, name) in only
    }
    known = forms(found)
    return {op: {**each, **known.get(op, {})} for op, each in found.items()}


def row(schemas: Iterable[Any]) -> dict[str, Any]:
    ordered = sorted(schemas, key=lambda schema: schema.since_version)
    newest = ordered[-1]
    names = [operand.name for operand in newest.inputs]
    is_variadic = bool(names) and _option(newest.inputs[-1].option) == "Variadic"
    attrs = {name: type_ for schema in ordered for name, type_ in attributes(schema)}
    least = min(sum(map(is_given, schema.inputs)) for schema in ordered)
    found = {n: value for n, value in defaults(newest) if n in attrs}
    always = set.intersection(*map(required, ordered)) | found.keys()
    may_be_none = [name for name in attrs if name not in always]
    most = max(schema.max_output for schema in ordered)
    values = {name: known for name in attrs if (known := values_of(newest, name, attrs[name]))}
    optional = 0 if is_variadic else len(names) - least
    absent = [] if is_variadic else [name for name in names if not in_all(ordered, name)]
    needed = [] if is_variadic else names[: min(map(always_given, ordered))]
    return {
        "operands": None if is_variadic else names,
        "optional": optional,
        **({"absent": absent} if optional and absent != names[-optional:] else {}),
        "attrs": attrs,
        "defaults": found,
        **({"values": values} if values else {}),
        **({"results": most} if most < _ANY_NUMBER else {}),
        **({"may_be_none": may_be_none} if may_be_none else {}),
        **dict(dtypes_of(ordered, needed)),
        **({"shape": shape} if most == 1 and (shape := shape_of(ordered, needed)) else {}),
    }


def is_given(operand: Any) -> bool:
    """Whether every node has an operand."""
    return _option(operand.option) == "Single"


def in_all(schemas: list[Any], name: str) -> bool:
    """Whether every node has the operand called `name`, in all versions that do not rename it."""
    named = [[each.name for each in schema.inputs if is_given(each)] for schema in schemas]
    return all(name in each for each in named)


def shape_of(schemas: list[Any], needed: list[str]) -> str | None:
    """
    "first" if the result has the shape of the first operand whatever that is, by the shape
    inference of the onnx package, and "broadcast" if it is broadcast from all. Older versions
    whose attribute `axis` says how they broadcast are not known to do so.
    """
    newest = schemas[-1]
    if not needed or not isinstance(newest, onnx.defs.OpSchema):
        return None
    if not all(map(is_of_tensors, newest.inputs)):
        return None
    if all(inferred(newest, [shape], needed) == shape for shape in _SHAPES):
        return "first"
    has_axis = any("axis" in schema.attributes for schema in schemas)
    together = permutations(_SHAPES_TO_BROADCAST, len(needed))
    is_broadcast = len(needed) in (2, 3) and all(
        inferred(newest, shapes, needed) == broadcast_shapes(*shapes) for shapes in together
    )
    return "broadcast" if is_broadcast and not has_axis else None


def is_of_tensors(formal: Any) -> bool:
    return all(type_.startswith("tensor(") for type_ in formal.types)


_SHAPES = [(4,), (1, 3), (2, 1, 3), (2, 3, 4, 5), (1, 4, 1, 4, 6)]
_SHAPES_TO_BROADCAST = [(4, 1, 5), (3, 1), (2, 1, 3, 1), (1,)]


def inferred(
    schema: Any, shapes: Sequence[tuple[int, ...]], names: list[str]
) -> tuple[int, ...] | None:
    """The shape of the result of operands of which the first have these shapes; None if unknown."""
    operands = [
        onnx.helper.make_tensor_value_info(name, element_type(formal), shape)
        for name, formal, shape in zip_longest(names, schema.inputs[: len(names)], shapes)
    ]
    node = onnx.helper.make_node(schema.name, names, ["result"], domain=schema.domain)
    result = onnx.helper.make_empty_tensor_value_info("result")
    graph = onnx.helper.make_graph([node], "call", operands, [result])
    opset = onnx.helper.make_opsetid(schema.domain, schema.since_version)
    model = onnx.helper.make_model(graph, opset_imports=[opset])
    try:
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    except onnx.shape_inference.InferenceError:
        return None
    type_ = model.graph.output[0].type.tensor_type
    return tuple(dim.dim_value for dim in type_.shape.dim) if type_.HasField("shape") else None


def element_type(formal: Any) -> int:
    """One that the operand may have; float if it may."""
    names = {type_.removeprefix("tensor(").removesuffix(")").upper() for type_ in formal.types}
    name = "FLOAT" if "FLOAT" in names else min(names)
    return int(onnx.TensorProto.DataType.Value(name))


def dtypes_of(schemas: list[Any], needed: list[str]) -> Iterator[tuple[str, Any]]:
    """
    The dtypes of the operands that every node has, which of them are the same, and which of them
    the results have too, if they all have the same: a node has only those that are used. The
    places of other operands vary: `accepts_all` has their dtypes where a node has all operands,
    and `fields` those of results that differ where a node has all results. `same_dtypes` has the
    groups of operands with one dtype, if there are others than that of the `always` first ones,
    which every node has.
    """
    found = {name: taken(schemas, at) for at, name in enumerate(needed)}
    accepts = {name: dtypes for name, dtypes in found.items() if dtypes}
    if any(len(dtypes) < len(dtype_names()) for dtypes in accepts.values()):
        yield "accepts", accepts
    agreeing = [[other for other in needed if agree(schemas, name, other)] for name in needed]
    same = next((group for group in agreeing if len(group) > 1), None)
    if same:
        yield "same_dtype", same
    results = [given(schemas, at, needed) for at in range(len(schemas[-1].outputs))]
    if len(set(results)) == 1 and results[0]:
        yield "dtypes", results
    elif any(fields := list(field_dtypes(schemas, results))):
        yield "fields", fields
    others = [(at, operand.name) for at, operand in enumerate(schemas[-1].inputs)]
    named = {name: taken_always(schemas, at) for at, name in others if name not in needed}
    if restricted := {name: dtypes for name, dtypes in named.items() if dtypes}:
        yield "accepts_all", restricted
    groups = [group for group in groups_of(schemas) if group != same]
    if needed and groups:
        yield "same_dtypes", groups
        yield "always", len(needed)


def groups_of(schemas: list[Any]) -> list[list[str]]:
    """
    The groups of operands that have one dtype in each version that has both, whether every node
    has them or not; none if a version has its operands in other places.
    """
    names = [operand.name for operand in schemas[-1].inputs]
    for schema in schemas:
        if [operand.name for operand in schema.inputs] != names[: len(schema.inputs)]:
            return []
    groups: list[list[str]] = []
    for name in names:
        found = next((each for each in groups if agree(schemas, each[0], name)), None)
        if found is None:
            groups.append([name])
        else:
            found.append(name)
    return [group for group in groups if len(group) > 1]


def field_dtypes(schemas: list[Any], results: list[str | None]) -> Iterator[str | list[str] | None]:
    """The operand with the dtype of each result, or the dtypes that it may have, if not all."""
    for at, found in enumerate(results):
        having = [schema for schema in schemas if at < len(schema.outputs)]
        if any(_option(schema.outputs[at].option) == "Variadic" for schema in having):
            yield None
            continue
        possible = tensors_of(type_ for schema in having for type_ in schema.outputs[at].types)
        is_any = len(possible) in (0, len(dtype_names()))
        yield found or (None if is_any else possible)


def taken_always(schemas: list[Any], at: int) -> list[str]:
    """
    The dtypes of an operand that some nodes lack, in the versions with as many operands as the
    newest; empty if it may have any.
    """
    count = len(schemas[-1].inputs)
    whole = [schema for schema in schemas if len(schema.inputs) == count]
    if any(_option(operand.option) == "Variadic" for operand in schemas[-1].inputs):
        return []
    dtypes = taken(whole, at)
    return dtypes if len(dtypes) < len(dtype_names()) else []


def always_given(schema: Any) -> int:
    """How many operands come before the first that a node may leave out."""
    options = [_option(operand.option) for operand in schema.inputs]
    return next((at for at, option in enumerate(options) if option != "Single"), len(options))


def taken(schemas: Iterable[Any], at: int) -> list[str]:
    """The dtypes that an operand may have in a version; empty if it may be no such tensor."""
    operands = [schema.inputs[at] for schema in schemas if at < len(schema.inputs)]
    return tensors_of(type_ for operand in operands for type_ in operand.types)


def tensors_of(types: Iterable[str]) -> list[str]:
    """The dtypes of tensors; empty if some are of none that the language has."""
    found = set()
    for type_ in set(types) - _NO_NUMBERS:
        name = type_.removeprefix("tensor(").removesuffix(")")
        dtype = _DTYPES.get(name, name.replace("float8", "float8_"))
        if not type_.startswith("tensor(") or long_dtype(dtype) is None:
            return []
        found.add(short_dtype(dtype))
    return [dtype for dtype in dtype_names() if dtype in found]


_NO_NUMBERS = {f"tensor({name})" for name in ("complex64", "complex128", "string")} | {
    f"tensor({name})" for name in ("float6e2m3", "float6e3m2")
}
"""Tensors that a pattern has no dtype for."""

_DTYPES = {
    "float": "float32",
    "double": "float64",
    "float4e2m1": "float4_e2m1fn",
    "float8e8m0": "float8_e8m0fnu",
}
"""How the language calls the dtypes of ONNX, where the names differ."""


def agree(schemas: Iterable[Any], one: str, other: str) -> bool:
    """Whether two operands have the same dtype in every version that has them."""
    known = [{each.name: variable(each) for each in schema.inputs} for schema in schemas]
    return all(
        one not in each or other not in each or each[one] == each[other] != "" for each in known
    )


def variable(formal: Any) -> str:
    """The variable for the type of an operand or a result; empty if the type is not one."""
    name = str(getattr(formal, "type_str", None) or getattr(formal, "typeStr", ""))
    return "" if "(" in name else name


def given(schemas: Iterable[Any], at: int, needed: Iterable[str]) -> str | None:
    """The operand whose dtype a result has in every version, or the dtype that it always has."""
    having = [schema for schema in schemas if at < len(schema.outputs)]
    types = tensors_of(type_ for schema in having for type_ in schema.outputs[at].types)
    if len(types) == 1:
        return types[0]
    if any(_option(schema.outputs[at].option) == "Variadic" for schema in having):
        return None
    for name in needed:
        operands = [{each.name: variable(each) for each in s.inputs} for s in having]
        results = [variable(schema.outputs[at]) for schema in having]
        pairs = zip(operands, results, strict=True)
        if all(each.get(name) == result != "" for each, result in pairs):
            return name
    return None


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
    operator = f"{MICROSOFT}.{schema.name}" if schema.domain == MICROSOFT else schema.name
    return VALUES.get(f"{operator} {name}") or VALUES.get(name, ())


def required(schema: Any) -> set[str]:
    return {name for name, attribute in schema.attributes.items() if attribute.required}


def defaults(schema: Any) -> Iterator[tuple[str, Any]]:
    for name, attribute in sorted(schema.attributes.items()):
        value = getattr(attribute, "default_value", None)
        if value is None:  # onnxruntime gives the message as bytes
            value = onnx.AttributeProto.FromString(attribute._default_value)
        if value.type:
            found = onnx.helper.get_attribute_value(value)
            yield name, _plain(found)


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return value.decode()
        case float():
            return as_written(value)
        case list():
            return [_plain(each) for each in value]
    return value


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
    parser.add_argument("operators", nargs="*", help="check only these")
    given = parser.parse_args()
    if given.check and given.operators:
        known = json.loads(OUTPUT.read_text("utf-8"))["operators"]
        made = json.loads(json.dumps(rows(given.operators)))
        return int(made != {op: known[op] for op in given.operators})
    text = written(rows())
    if given.check:
        return int(OUTPUT.read_text("utf-8") != text)
    OUTPUT.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
