"""
Write the operator table of the installed TVM to `collage_dsl/graph/operators-0.27.json`.

    python scripts/operator_table.py            # rewrite the table
    python scripts/operator_table.py --check    # exit 1 if it would change

Names, operands and attribute fields come from TVM's registry. The rest comes from one sample
call for each operator: its attributes are the defaults, and legalizing it gives the kind. What an
operator takes and gives is found by asking TVM for the type of calls that differ a little from
the sample (`operator_types.py`).
"""

import argparse
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import operator_types
import tvm
from tvm import ir, relax

from collage_dsl.graph.types import dtype_names, long_dtype

OUTPUT = Path(__file__).parents[1] / "collage_dsl" / "graph" / "operators-0.27.json"

INTERNAL = (
    "builtin.",
    "call_",
    "dist.",
    "inspect.",
    "invoke_",
    "make_closure",
    "memory.",
    "null_value",
    "vm.",
)
"""Operators that rules are never about: calls of functions, memory, sharding, those of the VM."""


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


AXIS = ("axis", "axes")
"""The ends of the names of attributes that name dimensions."""

COMMUTATIVE = frozenset(
    words(
        "add multiply maximum minimum equal not_equal log_add_exp "
        "bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor"
    )
)

BROADCAST = frozenset(
    words(
        "add atan2 bitwise_and bitwise_or bitwise_xor dequantize divide equal ewise_fma "
        "floor_divide floor_mod greater greater_equal left_shift less less_equal log_add_exp "
        "logical_and logical_or logical_xor maximum minimum mod multiply nn.prelu not_equal power "
        "quantize right_shift subtract where"
    )
)
"""
TVM annotates a broadcasting call as elementwise when one operand has the shape of the result.
Here they are broadcast; `collage_dsl.graph.operators.kind_of` looks at the shapes.
"""

REDUCE = frozenset(words("argmax argmin mean std variance"))
"""Anchors for TVM, because it legalizes them to more than a reduction; users call them `reduce`."""

INJECTIVE = frozenset(words("arange meshgrid nn.pixel_shuffle one_hot squeeze stack strided_slice"))
"""Operators whose sample call has another kind than the operator, or no code in TVM."""

UNSAMPLED = frozenset({"assert_op", "print", "to_vdevice"})
"""Operators with effects or placement: opaque, with no attributes to read."""

VARIADIC = frozenset({"assert_op", "print"})
"""Operators that take any number of operands; in the registry it is one array."""

OPERANDS = {"strided_slice": ("x", "axes", "begin", "end", "strides")}
"""Operators for which the registry names fewer operands than calls have."""

OPTIONAL = {"grad.nll_loss_backward": 1, "nn.nll_loss": 1, "strided_slice": 1, "unique": 1}
"""The number of last operands that a call may leave out."""

LITERAL_TYPES = ("PrimExpr", "Prim(", "Shape", "StringImm", "DataType")
"""Operands of these declared types are written in the program, not computed as tensors."""

LITERALS = {
    "strided_slice": ("axes", "begin", "end", "strides"),
    "unique": ("sorted", "return_index", "return_inverse", "return_counts", "axis"),
}
"""Literal operands that are missing in the registry, or declared with another type."""

KINDS = {0: "elementwise", 1: "broadcast", 2: "injective", 3: "reduce", 4: "anchor", 8: "opaque"}

ATTRIBUTE_TYPES = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "dtype": "dtype",
    "Array[int]": "ints",
    "Array[float]": "floats",
    "Array[ir.FloatImm]": "floats",
    "ir.FloatImm": "float",
    "ir.IntImm": "int",
    "Object": "int|ints",
    "ir.Expr": "object",
    "tirx.IndexMap": "object",
}

VALUES: dict[str, tuple[str, ...]] = {
    "causal_mask": words("TopLeft BottomRight"),
    "ccl.allreduce op_type": words("sum prod min max avg"),
    "coordinate_transformation_mode": words(
        "half_pixel align_corners asymmetric pytorch_half_pixel tf_half_pixel_for_nn "
        "tf_crop_and_resize"
    ),
    "grad.nll_loss_backward reduction": words("none mean sum"),
    "image.grid_sample method": words("nearest bilinear bicubic"),
    "image.grid_sample padding_mode": words("zeros border reflection"),
    "image.resize2d method": words("nearest_neighbor linear cubic"),
    "image.resize3d method": words("nearest_neighbor linear cubic"),
    "indexing": words("ij xy"),
    "nn.nll_loss reduction": words("none mean sum"),
    "pad_mode": words("constant reflect replicate circular"),
    "ret_type": words("both values indices"),
    "rounding_method": ("", *words("round floor ceil round_prefer_floor round_prefer_ceil")),
    "scatter_elements reduction": words("update add mul mean min max"),
    "scatter_nd reduction": words("update add mul min max"),
    "take mode": words("fast wrap clip nan"),
    "vision.all_class_non_max_suppression output_format": words("onnx tensorflow"),
    "vision.roi_align mode": words("avg max"),
}
"""
The possible values of string attributes, by attribute, or by operator and attribute. They come
from TVM's documentation of its operators and from the errors of its legalizations.
"""

_WHOLE = words("i8 i16 i32 i64 u8 u16 u32 u64 bool i4 u4 i2 u2")

COMPUTED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(words("bitwise_and bitwise_not bitwise_or bitwise_xor"), _WHOLE),
    **dict.fromkeys(words("left_shift right_shift"), _WHOLE),
}
"""
The dtypes of operands where TVM infers a type for all, but neither it nor a framework computes
others. (PyTorch has logical operators of numbers.)
"""

AXES = frozenset((name, "axis") for name in words("argsort cumprod cumsum scatter_elements sort"))
"""Attributes that name a dimension, though TVM infers a type for other numbers too."""

LAYOUTS: dict[str, tuple[str, ...]] = {
    "NCW": words("NCW NWC"),
    "NCHW": words("NCHW NHWC HWCN"),
    "NCDHW": words("NCDHW NDHWC"),
    "OIW": words("OIW OWI IOW WIO WOI"),
    "OIHW": words("OIHW OHWI IOHW HWIO HWOI"),
    "OIDHW": words("OIDHW ODHWI IODHW DHWIO DHWOI"),
}
"""
The orders of axes that importers write and libraries accept. TVM infers shapes for any order, so
it never reports a misspelt one.
"""


def tensor(*shape: int, dtype: str = "float32") -> relax.Var:
    return relax.Var("x", relax.TensorType(shape, dtype))


def constant(value: object, dtype: str) -> ir.GenericConst:
    return relax.const(value, dtype)


IMAGE = (1, 16, 8, 8)
ROW = (4, 8)


def integers(*shape: int) -> relax.Var:
    return tensor(*shape, dtype="int64")


def booleans(*shape: int) -> relax.Var:
    return tensor(*shape, dtype="bool")


def nchw() -> relax.Var:
    return tensor(*IMAGE)


def row() -> relax.Var:
    return tensor(*ROW)


def channels() -> relax.Var:
    return tensor(16)


def heads() -> relax.Var:
    return tensor(1, 8, 2, 4)


def boxes() -> tuple[relax.Var, ...]:
    """Boxes, how many of them are valid, and their places."""
    return tensor(1, 8, 6), tensor(1, dtype="int32"), tensor(1, 8, dtype="int32")


def boxes_by_class() -> tuple[Any, ...]:
    """Boxes, their scores in each class, and the bounds for choosing among them."""
    bounds = constant(3, "int64"), constant(0.5, "float32"), constant(0.1, "float32")
    return tensor(1, 8, 4), tensor(1, 2, 8), *bounds


Sample = tuple[tuple[Any, ...], dict[str, Any]]


def given(*operands: Any, **attributes: Any) -> Sample:
    return operands, attributes


UNARY = words(
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor isfinite isinf isnan log "
    "negative nn.gelu nn.gelu_tanh nn.leakyrelu nn.relu nn.selu nn.silu nn.softplus round rsqrt "
    "sigmoid sign sin sinh sqrt square tan tanh trunc nn.dropout ones_like zeros_like "
    "nn.batch_flatten flatten size shape_of grad.no_grad grad.start_checkpoint "
    "grad.end_checkpoint nonzero wrap_param sort argsort topk cumsum cumprod"
)

BINARY = words(
    "add atan2 divide equal floor_divide floor_mod greater greater_equal less less_equal "
    "log_add_exp maximum minimum mod multiply not_equal power subtract"
)

REDUCTIONS = words("argmax argmin max mean median min prod std sum variance")

CREATIONS = words("ones zeros")

INTEGER_BINARY = words("bitwise_and bitwise_or bitwise_xor left_shift right_shift")

BOOLEAN_BINARY = words("logical_and logical_or logical_xor")


def samples() -> dict[str, Callable[[], Sample]]:
    """For each operator, the arguments of one call of its Python constructor."""
    table: dict[str, Callable[[], Sample]] = {}
    table |= {name: lambda: given(row()) for name in UNARY}
    table |= {name: lambda: given(row(), tensor(8)) for name in BINARY}
    table |= {name: lambda: given(nchw()) for name in REDUCTIONS}
    table |= {name: lambda: given(ROW, dtype="float32") for name in CREATIONS}
    table |= {name: lambda: given(integers(4, 8), integers(8)) for name in INTEGER_BINARY}
    table |= {name: lambda: given(booleans(4, 8), booleans(8)) for name in BOOLEAN_BINARY}
    for rank in (1, 2, 3):
        data = (1, 16, *[8] * rank)
        weight = (16, 16, *[3] * rank)
        for name in (f"nn.conv{rank}d", f"nn.conv{rank}d_transpose"):
            table[name] = lambda d=data, w=weight: given(tensor(*d), tensor(*w))
        for name in (f"nn.max_pool{rank}d", f"nn.avg_pool{rank}d", f"nn.adaptive_avg_pool{rank}d"):
            table[name] = lambda d=data: given(tensor(*d))
    return table | {
        "arange": lambda: given(0, 8, 1, "float32"),
        "astype": lambda: given(row(), "float16"),
        "bitwise_not": lambda: given(integers(4)),
        "broadcast_to": lambda: given(tensor(8), ROW),
        "bucketize": lambda: given(row(), tensor(8)),
        "ccl.allgather": lambda: given(row(), 2),
        "ccl.allreduce": lambda: given(row()),
        "ccl.broadcast_from_worker0": lambda: given(row()),
        "ccl.scatter_from_worker0": lambda: given(row(), 2),
        "clip": lambda: given(row(), relax.prim_value(0.0), relax.prim_value(6.0)),
        "collapse_sum_like": lambda: given(row(), tensor(8)),
        "collapse_sum_to": lambda: given(row(), (8,)),
        "concat": lambda: given([row(), row()]),
        "dequantize": lambda: given(tensor(4, 8, dtype="int8"), tensor(8), tensor(8, dtype="int8")),
        "dynamic_strided_slice": lambda: given(row(), integers(2), integers(2), integers(2)),
        "einsum": lambda: given([row(), tensor(8, 4)], "ij,jk->ik"),
        "ewise_fma": lambda: given(row(), row(), row()),
        "expand_dims": lambda: given(row(), 0),
        "eye": lambda: given(4),
        "eye_like": lambda: given(row()),
        "flip": lambda: given(row(), 0),
        "full": lambda: given(ROW, tensor()),
        "full_like": lambda: given(row(), tensor()),
        "gather_elements": lambda: given(row(), integers(4, 8)),
        "gather_nd": lambda: given(row(), integers(3, 2)),
        "grad.avg_pool2d_backward": lambda: given(nchw(), nchw()),
        "grad.max_pool2d_backward": lambda: given(nchw(), nchw()),
        "grad.nll_loss_backward": lambda: given(tensor(), row(), integers(4), tensor(8)),
        "grad.take_backward": lambda: given(tensor(3), tensor(8), integers(3)),
        "hamming_window": lambda: given(8, True, 0.54, 0.46, "float32"),
        "hint_on_device": lambda: given(row(), tvm.cpu()),
        "image.affine_grid": lambda: given(tensor(1, 2, 3), (8, 8)),
        "image.grid_sample": lambda: given(nchw(), tensor(1, 8, 8, 2)),
        "image.resize2d": lambda: given(nchw(), (16, 16)),
        "image.resize3d": lambda: given(tensor(1, 16, 8, 8, 8), (16, 16, 16)),
        "index_put": lambda: given(row(), (integers(3), integers(3)), tensor(3)),
        "index_tensor": lambda: given(row(), [integers(3), integers(3)]),
        "layout_transform": lambda: given(row(), lambda i, j: (j, i)),
        "logical_not": lambda: given(booleans(4, 8)),
        "matmul": lambda: given(row(), tensor(8, 4)),
        "meshgrid": lambda: given([tensor(4), tensor(8)]),
        "multinomial_from_uniform": lambda: given(row(), tensor(4, 1), integers(4, 1)),
        "nn.attention": lambda: given(heads(), heads(), heads()),
        "nn.attention_bias": lambda: given(heads(), heads(), heads(), tensor(1, 2, 8, 8)),
        "nn.attention_var_len": lambda: given(
            *(heads() for _ in range(3)), *(tensor(n, dtype="int32") for n in (2, 1, 2, 1))
        ),
        "nn.batch_norm": lambda: given(nchw(), *(channels() for _ in range(4)), axis=1),
        "nn.cross_entropy_with_logits": lambda: given(row(), row()),
        "nn.group_norm": lambda: given(
            nchw(), channels(), channels(), num_groups=4, channel_axis=1, axes=[2, 3]
        ),
        "nn.instance_norm": lambda: given(
            nchw(), channels(), channels(), channel_axis=1, axes=[2, 3]
        ),
        "nn.layer_norm": lambda: given(row(), tensor(8), tensor(8), axes=-1),
        "nn.log_softmax": lambda: given(row()),
        "nn.nll_loss": lambda: given(row(), integers(4), tensor(8)),
        "nn.pad": lambda: given(row(), [0, 0, 1, 1]),
        "nn.pixel_shuffle": lambda: given(nchw(), 2),
        "nn.prelu": lambda: given(row(), tensor(8)),
        "nn.rms_norm": lambda: given(row(), tensor(8)),
        "nn.softmax": lambda: given(row()),
        "one_hot": lambda: given(
            integers(4), relax.prim_value(1.0), relax.prim_value(0.0), depth=8
        ),
        "outer": lambda: given(tensor(4), tensor(8)),
        "permute_dims": lambda: given(row()),
        "quantize": lambda: given(row(), tensor(8), tensor(8, dtype="int8")),
        "repeat": lambda: given(row(), 2),
        "reshape": lambda: given(row(), (8, 4)),
        "reverse_sequence": lambda: given(row(), integers(4)),
        "scatter_elements": lambda: given(row(), integers(4, 8), row()),
        "scatter_nd": lambda: given(row(), integers(3, 2), tensor(3)),
        "shape_to_tensor": lambda: given(relax.ShapeExpr((4, 8))),
        "slice_scatter": lambda: given(row(), tensor(2, 8), 0, 2, 1),
        "split": lambda: given(row(), 2),
        "squeeze": lambda: given(tensor(1, 8)),
        "stack": lambda: given([row(), row()]),
        "strided_slice": lambda: given(row(), [0], [0], [2], [1]),
        "take": lambda: given(row(), integers(3), axis=0),
        "tensor_to_shape": lambda: given(integers(3)),
        "tile": lambda: given(row(), 2),
        "tril": lambda: given(row()),
        "triu": lambda: given(row()),
        "unique": lambda: given(row()),
        "vision.all_class_non_max_suppression": lambda: given(*boxes_by_class()),
        "vision.get_valid_counts": lambda: given(tensor(1, 8, 6)),
        "vision.multibox_transform_loc": lambda: given(
            tensor(1, 3, 8), tensor(1, 32), tensor(1, 8, 4)
        ),
        "vision.non_max_suppression": lambda: given(*boxes()),
        "vision.roi_align": lambda: given(nchw(), tensor(2, 5), (2, 2), 1.0),
        "vision.roi_pool": lambda: given(nchw(), tensor(2, 5), (2, 2), 1.0),
        "where": lambda: given(booleans(4, 1), row(), tensor(8)),
    }


def other_samples() -> dict[str, list[Sample]]:
    """Further calls of operators whose attributes decide what the results are."""
    return {
        "bucketize": [given(row(), tensor(8), out_int32=True)],
        "median": [given(row(), axis=[1])],
        "meshgrid": [given([tensor(4)])],
        "split": [given(row(), 3)],
        "topk": [given(row(), ret_type=results) for results in ("values", "indices")],
        "unique": [given(row(), return_index=True)],
        "vision.all_class_non_max_suppression": [
            given(*boxes_by_class(), output_format="tensorflow")
        ],
        "vision.non_max_suppression": [given(*boxes(), return_indices=False)],
    }


def constructor(name: str) -> Callable[..., relax.Call]:
    found: Any = relax.op
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def remade(name: str, sample: Sample, **changed: Any) -> relax.Call:
    """The call of a sample, with other attributes."""
    operands, attributes = sample
    written = inspect.signature(constructor(name)).bind(*operands, **attributes)
    written.arguments.update(changed)
    return constructor(name)(*written.args, **written.kwargs)


def asked(name: str, sample: Callable[[], Sample], attribute: str) -> operator_types.Asked:
    """The calls of a sample that say each dtype by `attribute`."""
    calls = {
        dtype: remade(name, sample(), **{attribute: dtype})
        for dtype in (str(long_dtype(each)) for each in dtype_names())
    }
    return operator_types.Asked(attribute, calls)


def axes_beyond(name: str, sample: Callable[[], Sample], attribute: str, type_: str) -> int:
    """
    How many more axes than those of the first operand `attribute` may name: 1 where it names a new
    one. -1 if TVM does not refuse others.
    """
    first = remade(name, sample()).args[0].ty
    rank = (first.fields[0] if isinstance(first, relax.TupleType) else first).ndim
    allowed = []
    for axis in range(-rank - 3, rank + 3):
        value = [axis] if type_ == "ints" else axis
        call = remade(name, sample(), **{attribute: value})
        if operator_types.accepted(call) is not None:
            allowed.append(axis)
    beyond = max((max(axis + 1, -axis, rank) - rank for axis in allowed), default=-1)
    return beyond if beyond <= 1 else -1


def variables(expr: Any) -> Iterator[relax.Var]:
    if isinstance(expr, relax.Var):
        yield expr
    elif isinstance(expr, list | tuple | relax.Tuple):
        for item in expr:
            yield from variables(item)


def kind(operands: tuple[Any, ...], call: relax.Call) -> str:
    """The greatest `op_pattern` of the legalized call; opaque if it cannot be legalized."""
    builder = relax.BlockBuilder()
    parameters = list(dict.fromkeys(variables(operands)))
    with builder.function("main", parameters):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(call))
        builder.emit_func_output(result)
    passes = [relax.transform.LegalizeOps(), relax.transform.AnnotateTIROpPattern()]
    try:
        with tvm.target.Target({"kind": "llvm"}):
            module = tvm.ir.transform.Sequential(passes)(builder.get())
    except (RuntimeError, TypeError, AttributeError):  # the errors of TVM's own legalizations
        return "opaque"
    functions = (f for f in module.functions.values() if isinstance(f, tvm.tirx.PrimFunc))
    patterns = [int(f.attrs["op_pattern"]) for f in functions]
    return KINDS[8 if calls_others(module["main"]) or not patterns else max(patterns)]


def calls_others(function: relax.Function) -> bool:
    """Whether the function still calls anything other than PrimFuncs."""
    found = []

    def visit(expr: Any) -> None:
        if isinstance(expr, relax.Call) and expr.op != ir.Op.get("relax.call_tir"):
            found.append(expr)

    relax.analysis.post_order_visit(function, visit)
    return bool(found)


def known_kind(name: str) -> str | None:
    if name in BROADCAST:
        return "broadcast"
    if name in REDUCE:
        return "reduce"
    if name in INJECTIVE:
        return "injective"
    return None


def plain(value: Any) -> Any:
    """The value of an attribute as JSON."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, tvm.tirx.IntImm | tvm.tirx.FloatImm):
        return value.value
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "__iter__"):
        return [plain(item) for item in value]
    return str(value)


def declared(call: relax.Call) -> dict[str, str]:
    """The attributes of a call, with their types in TVM: `Array[int] | None`."""
    if call.attrs is None:
        return {}
    return {field.name: str(field.ty) for field in type(call.attrs).__tvm_ffi_type_info__.fields}


def fields(call: relax.Call) -> dict[str, str]:
    types = declared(call).items()
    return {name: ATTRIBUTE_TYPES[type_.removesuffix(" | None")] for name, type_ in types}


def defaults(name: str, operands: tuple[Any, ...], attributes: dict[str, Any]) -> dict[str, Any]:
    """The values of the attributes that a caller may leave out."""
    signature = inspect.signature(constructor(name))
    written = signature.bind(*operands, **attributes).arguments
    call = constructor(name)(*operands, **attributes)
    found = {}
    for attribute, type_ in fields(call).items():
        if attribute not in written:
            found[attribute] = plain(getattr(call.attrs, attribute))
        elif signature.parameters[attribute].default is not inspect.Parameter.empty:
            found[attribute] = plain(signature.parameters[attribute].default)
        if type_ == "object":
            found.pop(attribute, None)
    return found


def values_of(name: str, attribute: str, default: Any) -> tuple[str, ...]:
    """The known values of a string attribute; a layout has the axes of its default."""
    if "layout" in attribute and isinstance(default, str):
        axes = sorted(default)
        return next((known for first, known in LAYOUTS.items() if sorted(first) == axes), ())
    return VALUES.get(f"{name} {attribute}") or VALUES.get(attribute, ())


def row_of(name: str, sample: Callable[[], Sample] | None) -> dict[str, Any]:
    registered = ir.Op.get(f"relax.{name}").arguments
    operands = OPERANDS.get(name) or tuple(argument.name for argument in registered)
    literals = LITERALS.get(name) or tuple(
        a.name for a in registered if a.type_info.startswith(LITERAL_TYPES)
    )
    table: dict[str, Any] = {
        "operands": None if name in VARIADIC else list(operands),
        "literals": [] if name in VARIADIC else list(literals),
        "optional": OPTIONAL.get(name, 0),
        "attrs": {},
        "defaults": {},
        "kind": "opaque",
        "commutative": name in COMMUTATIVE,
    }
    if sample is None:
        return table
    arguments, attributes = sample()
    call = constructor(name)(*arguments, **attributes)
    if not len(operands) - OPTIONAL.get(name, 0) <= len(call.args) <= len(operands):
        raise ValueError(f"{name}: {len(operands)} operands, but its call has {len(call.args)}")
    table["attrs"] = fields(call)
    table["defaults"] = defaults(name, arguments, attributes)
    table["kind"] = known_kind(name) or kind(arguments, call)
    samples = [call, *(remade(name, other) for other in other_samples().get(name, ()))]
    dtypes = [attribute for attribute, type_ in table["attrs"].items() if type_ == "dtype"]
    table |= operator_types.columns(samples, operands, [asked(name, sample, d) for d in dtypes])
    if name in COMPUTED:
        table["accepts"] = {operand: list(COMPUTED[name]) for operand in operands}
    named = {a: type_ for a, type_ in table["attrs"].items() if a.endswith(AXIS)}
    more = {a: axes_beyond(name, sample, a, t) for a, t in named.items() if t in ("int", "ints")}
    more |= {a: 0 for a in named if (name, a) in AXES}
    if axes := {attribute: beyond for attribute, beyond in more.items() if beyond >= 0}:
        table["axes"] = axes
    strings = (attribute for attribute, type_ in table["attrs"].items() if type_ == "str")
    known = {a: values_of(name, a, table["defaults"].get(a)) for a in strings}
    if any(known.values()):
        table["values"] = {attribute: list(values) for attribute, values in known.items() if values}
    may_be_none = [a for a, type_ in declared(call).items() if type_.endswith(" | None")]
    if may_be_none:
        table["may_be_none"] = may_be_none
    return table


def names() -> list[str]:
    """The operators of Relax that rules can name, without `relax.`."""
    relaxed = (name for name in ir.Op.list_op_names() if name.startswith("relax."))
    short = (name.removeprefix("relax.") for name in relaxed)
    return sorted(name for name in short if not name.startswith(INTERNAL))


def make_table() -> dict[str, dict[str, Any]]:
    table = samples()
    missing = set(names()) - table.keys() - UNSAMPLED
    if missing:
        raise ValueError(f"no sample call for {', '.join(sorted(missing))}")
    return {name: row_of(name, table.get(name)) for name in names()}


def to_json(table: dict[str, dict[str, Any]]) -> str:
    """The table with one operator on each line, so that diffs are readable."""
    rows = ",\n".join(f"    {json.dumps(name)}: {json.dumps(table[name])}" for name in table)
    version = ".".join(tvm.__version__.split(".")[:2])
    return f'{{\n  "tvm": {json.dumps(version)},\n  "operators": {{\n{rows}\n  }}\n}}\n'


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the operator table of the installed TVM.")
    parser.add_argument("--check", action="store_true", help="only say whether it would change")
    text = to_json(make_table())
    if parser.parse_args().check:
        return int(text != OUTPUT.read_text("utf-8"))
    OUTPUT.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
