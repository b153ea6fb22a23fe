"""The values of an ONNX model as far as it has been converted."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import onnx
import tvm
import tvm_ffi
from tvm import relax, tirx

from collage_dsl.frontend.arrays import array_of, constant
from collage_dsl.frontend.dims import Symbols, has_text
from collage_dsl.frontend.errors import CannotConvertError, FrontendError, UnsupportedRelax
from collage_dsl.frontend.onnx_affine import Affine, Factor, Linear, Pending
from collage_dsl.frontend.onnx_site import Value, known_dims, static_dims
from collage_dsl.frontend.onnx_sizes import Arithmetic, Sizes
from collage_dsl.frontend.onnx_types import (
    dtype_of,
    is_dtype,
    is_foreign,
    onnx_type,
    tensor_type,
)
from collage_dsl.frontend.relax_reader import operator_of
from collage_dsl.frontend.types import relax_type, type_of
from collage_dsl.graph import TensorType
from collage_dsl.graph.arrays import Array


class Values:
    """
    Values by their names in the model: the `Scope` that converters use. `uses` says how often each
    is taken, `makers` which node computes it. `make_constant` makes the constants of Relax. `least`
    has the least sizes of dimensions with names that cannot be 1.
    """

    def __init__(
        self,
        opset: int,
        make_constant: Callable[[Array], Any] = constant,
        least: Mapping[str, int] | None = None,
    ) -> None:
        self.opset = opset
        self.make_constant = make_constant
        self.builder = relax.BlockBuilder()
        self.values: dict[str, Value] = {}
        self.names: dict[Any, str] = {}
        self.literals: dict[str, Any] = {}
        self.uses: Counter[str] = Counter()
        self.makers: dict[str, onnx.NodeProto] = {}
        self.of_model: frozenset[str] = frozenset()
        """What nodes of the model compute, and not those of graphs inside."""
        self.symbols: Symbols = {}
        self.arithmetic = Arithmetic(self.symbols, least or {})
        self.objects: dict[str, onnx.TypeProto] = {}
        """The types of values that are no tensors of Relax."""
        self.kept: dict[int, Any] = {}
        """The variables of nodes that are kept as they are, by their hash."""
        self.plain: dict[int, Any] = {}
        """
        Expressions that are known to be made with operators of Relax only, by their hash. They are
        held, for the hash is an address, which another expression may get.
        """

    def parameter(self, name: str, type_: TensorType | onnx.TypeProto) -> Any:
        """A new input."""
        if isinstance(type_, onnx.TypeProto):
            self.objects[name] = type_
            var = relax.Var(name, relax.ObjectType())
        else:
            var = relax.Var(name, relax_type(type_, self.symbols))
        self.values[name] = var
        self.names[var] = name
        return var

    def value(self, name: str) -> Value:
        if name not in self.values:
            when = " before it is used" if name in self.makers else ""
            raise FrontendError(f"nothing in the model computes the value `{name}`{when}")
        return self.values[name]

    def constant(self, name: str) -> Array | None:
        value = self.value(name)
        return value if isinstance(value, np.ndarray) else None

    def number(self, name: str) -> Array | None:
        """The value `name` if it is constant, or dequantized from constants."""
        value = self.value(name)
        bound = self.builder.lookup_binding(value) if isinstance(value, tvm.ir.Var) else None
        if not isinstance(bound, tvm.ir.Call) or bound.op != DEQUANTIZE:
            return self.constant(name)
        arrays = [each.value for each in bound.args if isinstance(each, tvm.ir.GenericConst)]
        if len(arrays) < len(bound.args):
            return None
        x, scale, zero = map(array_of, arrays)
        if x.size != 1 or x.dtype.kind not in "iu":
            return None
        return (x.astype(np.int64) - zero.astype(np.int64)).astype(scale.dtype) * scale

    def sizes(self, name: str) -> Sizes | None:
        """The value `name` if its elements follow from dimensions of inputs, and are no numbers."""
        value = self.value(name)
        return value if isinstance(value, Sizes) else None

    def cast_sizes(self, name: str) -> list[Any] | None:
        """The elements of `name` before they were cast, if they are sizes that were cast."""
        maker = self.makers.get(name)
        if maker is None or maker.op_type != "Cast":
            return None
        found = self.sizes(maker.input[0])
        return None if found is None else list(found.values.flat)

    def is_of_model(self, name: str) -> bool:
        return name in self.of_model

    def pending(self, name: str) -> Pending | None:
        value = self.value(name)
        alone = self.uses[name] == 1
        return value if isinstance(value, Affine | Linear) and alone else None

    def expr(self, name: str) -> Any:
        value = self.value(name)
        if isinstance(value, np.ndarray):
            return self.shared_literal(value, name)
        if isinstance(value, Affine | Linear):
            value = self.values[name] = self.bind(self.emit_pending(value, name), name)
        if isinstance(value, Sizes):
            return self.emit_sizes(value, name)
        return value

    def emit_sizes(self, value: Sizes, name: str) -> Any:
        """A vector of sizes as a shape, others as tensors."""
        shape = relax.ShapeExpr(list(value.values.flat))
        if value.values.ndim == 1 and value.dtype == "int64":
            return shape
        if name not in self.literals:
            made = self.emit(relax.op.shape_to_tensor(shape))
            if value.values.ndim != 1:
                made = self.emit(relax.op.reshape(made, relax.ShapeExpr(value.values.shape)))
            if value.dtype != "int64":
                made = self.emit(relax.op.astype(made, value.dtype))
            self.literals[name] = self.bind(made, name)
        return self.literals[name]

    def dtype(self, name: str) -> str:
        """The type of the elements of the value `name`; empty if it is not a tensor."""
        value = self.value(name)
        if isinstance(value, np.ndarray):
            return str(value.dtype)
        if isinstance(value, Affine | Linear):
            return value.layout.dtype
        if isinstance(value, Sizes):
            return value.dtype
        is_tensor = isinstance(value.ty, relax.TensorType) and value.ty.dtype is not None
        return str(value.ty.dtype.dtype) if is_tensor else ""

    def literal(self, array: Array, name: str = "") -> Any:
        """A new Relax constant. Its `name` need not differ from those of ONNX values."""
        if is_foreign(array):
            raise CannotConvertError(f"TVM has no constants of type {array.dtype}")
        made = self.make_constant(array)
        if name:
            self.names[made] = name
        return made

    def shared_literal(self, array: Array, name: str) -> Any:
        """The Relax constant of the ONNX value `name`, which is made once."""
        if name not in self.literals:
            self.literals[name] = self.literal(array, name)
        return self.literals[name]

    def emit(self, expr: Any) -> Any:
        return self.builder.emit(expr)

    def bind(self, expr: Any, name: str) -> Any:
        """`expr` as the value `name`. It is emitted, unless it needs no operator."""
        if is_call(expr):
            expr = self.builder.emit(expr)
        if isinstance(expr, tvm.ir.Var) and not tvm.ir.is_prim_expr(expr):
            self.names.setdefault(expr, name)
        return expr

    # Pending values.

    def emit_pending(self, value: Pending, name: str) -> Any:
        return (
            self.emit_linear(value, name)
            if isinstance(value, Linear)
            else self.emit_affine(value, name)
        )

    def emit_linear(self, value: Linear, name: str) -> Any:
        weight = value.weight
        held = (
            self.shared_literal(weight.values, weight.name)
            if weight.name
            else self.literal(weight.values, f"{name}.weight")
        )
        result = value.call(held)
        if value.bias is None:
            return result
        channels = np.broadcast_to(value.bias.values, (weight.values.shape[value.rows],))
        bias = self.literal(value.layout.spread(channels), f"{name}.bias")
        return relax.op.add(self.emit(result), bias)

    def emit_affine(self, value: Affine, name: str) -> Any:
        """Without a product where the scale is 1, as in `Swish` without an `alpha`."""
        result, shift = value.source, value.step.shift
        scale = None if value.step.is_by_one else value.step.scale
        if scale is not None:
            result = relax.op.multiply(result, self.factor(value, scale, f"{name}.scale"))
        if shift is not None:
            added = self.factor(value, shift, f"{name}.shift")
            result = relax.op.add(result if scale is None else self.emit(result), added)
        return result

    def factor(self, value: Affine, factor: Factor, name: str) -> Any:
        if factor.values.size == 1:
            return self.literal(factor.values.astype(value.layout.dtype).reshape(()), name)
        return self.literal(value.layout.spread(factor.values), name)

    # Types.

    def static_shape(self, name: str) -> list[int] | None:
        array = self.constant(name)
        if array is not None:
            return list(array.shape)
        sizes = self.sizes(name)
        if sizes is not None:
            return list(sizes.values.shape)
        type_ = self.expr(name).ty
        if not isinstance(type_, relax.TensorType) or type_.ndim < 0:
            return None
        return known_dims(static_dims(type_))

    def dims(self, name: str) -> list[Any] | None:
        """The dimensions of a tensor, of which some are no numbers; None where one is not known."""
        value = self.value(name)
        if isinstance(value, np.ndarray):
            return list(value.shape)
        if isinstance(value, Sizes):
            return list(value.values.shape)
        type_ = self.expr(name).ty
        if not isinstance(type_, relax.TensorType) or not self.follows(type_):
            return None
        return [self.arithmetic.simple(dim) for dim in type_.shape.values]

    def onnx_type(self, name: str) -> onnx.TypeProto:
        """The ONNX type of the value `name`."""
        if name in self.objects:
            return self.objects[name]
        array = self.constant(name)
        if array is not None:
            return onnx_type(TensorType(str(array.dtype), array.shape))
        type_ = type_of(self.tensor(self.expr(name)).ty)
        assert isinstance(type_, TensorType)
        return onnx_type(type_)

    def relax_type(self, type_: onnx.TypeProto, formulas: Collection[str] = ()) -> Any:
        """
        The Relax type of values of an ONNX type, of which some dimensions may be `formulas`: names
        and formulas in the types of operands. Inference makes up names that others may have too.
        """
        if not dtype_of(type_):
            return relax.ObjectType()
        known = {name for name in self.symbols if not name.startswith(_MADE_UP)} | {*formulas}
        return relax_type(tensor_type(type_, known), self.symbols)

    def tensor(self, expr: Any) -> Any:
        """A shape, or one size of it, as a tensor, for operators that do not take these."""
        if tvm.ir.is_prim_expr(expr):
            shape = self.tensor(relax.ShapeExpr([expr]))
            return self.builder.emit(relax.op.reshape(shape, ()))
        if expr is not None and isinstance(expr.ty, relax.ShapeType):
            return self.builder.emit(relax.op.shape_to_tensor(expr))
        return expr

    def check(self, pending: Linear) -> None:
        """Raise now the error that emitting `pending` would raise at a later node."""
        weight = pending.weight
        type_ = relax.TensorType(weight.values.shape, str(weight.values.dtype))
        self.builder.normalize(pending.call(relax.Var(weight.name or "weight", type_)))

    def is_tensor(self, name: str) -> bool:
        """Whether a value is a tensor of which the shape follows from those of the inputs."""
        value = self.value(name)
        if isinstance(value, np.ndarray):
            return not is_foreign(value)
        return isinstance(value, Affine | Linear | Sizes) or self.follows(value.ty)

    def is_empty(self, name: str) -> bool:
        """Whether a value that is no constant is a tensor without elements."""
        type_ = getattr(self.value(name), "ty", None)
        return isinstance(type_, relax.TensorType) and 0 in static_dims(type_)

    def may_be_empty(self, name: str) -> bool:
        """Whether a value is a tensor of which a slice may take nothing."""
        shape = getattr(getattr(self.value(name), "ty", None), "shape", None)
        return isinstance(shape, relax.ShapeExpr) and any(map(self.may_be_zero, shape.values))

    def may_be_zero(self, dim: Any) -> bool:
        """Whether a size may be 0, as `n - 1` may. Quotients do not count: a reshape has such."""
        divisions: list[Any] = []
        tvm_ffi.structural_walk(dim, (tirx.FloorDiv, divisions.append))
        at = self.arithmetic
        return not divisions and at.is_at_least(dim, 0) and not at.is_at_least(dim, 1)

    def follows(self, type_: Any) -> bool:
        """Whether values of this type are tensors, and the dimensions those of inputs."""
        match type_:
            case relax.TensorType():
                if type_.dtype is None or not isinstance(type_.shape, relax.ShapeExpr):
                    return False
                if not is_dtype(str(type_.dtype.dtype)) or not all(map(has_text, type_.shape)):
                    return False
            case relax.ShapeType(values=None):
                return False
            case relax.TupleType(fields=fields):
                return all(map(self.follows, fields))
            case relax.ObjectType() | relax.AnyType():
                return False
        known = set(map(hash, self.symbols.values()))
        return all(hash(var) in known for var in relax.analysis.tir_vars_in_type(type_))

    def is_plain(self, made: Any) -> bool:
        """
        Whether a new expression is made with operators of Relax from earlier values, and all
        shapes follow from those of the inputs.
        """
        pending, seen = [made], dict[int, Any]()
        while pending:
            value = pending.pop()
            if hash(value) in seen or hash(value) in self.plain:
                continue
            seen[hash(value)] = value
            if not self.follows(value.ty):
                return False
            match value:
                case tvm.ir.Call():
                    if not _is_operator(value):
                        return False
                    pending.extend(value.args[1:] if value.op == _CALL_TIR else value.args)
                case tvm.ir.Tuple() if any(map(_is_expression, value.fields)):
                    return False
                case tvm.ir.Tuple():
                    pending.extend(value.fields)
                case tvm.ir.TupleGetItem():
                    pending.append(value.tuple_value)
                case tvm.ir.Var() if hash(value) not in self.kept:
                    bound = self.builder.lookup_binding(value)
                    pending.extend([] if bound is None else [bound])
        self.plain |= seen
        return True


DEQUANTIZE = tvm.ir.Op.get("relax.dequantize")
_CALL_TIR = tvm.ir.Op.get("relax.call_tir")

_MADE_UP = "unk__"
"""How the names begin that ONNX's inference gives to sizes. tf2onnx writes them into models."""


def _is_operator(call: Any) -> bool:
    try:
        return call.op == _CALL_TIR or bool(operator_of("", call))
    except UnsupportedRelax:
        return False


def _is_expression(value: Any) -> bool:
    """Whether a value is computed from dimensions: no number, and no tensor."""
    return tvm.ir.is_prim_expr(value) and not isinstance(value, tirx.IntImm | tirx.FloatImm)


def is_call(expr: Any) -> bool:
    return isinstance(expr, tvm.ir.Call | tvm.ir.TupleGetItem)


def without_elements(expr: Any) -> Array | None:
    """The value of a tensor without elements; None for others. TVM cannot reshape such tensors."""
    if not isinstance(expr.ty, relax.TensorType) or expr.ty.dtype is None or expr.ty.ndim < 1:
        return None
    dims = known_dims(static_dims(expr.ty))
    return np.zeros(dims, str(expr.ty.dtype.dtype)) if dims is not None and 0 in dims else None
