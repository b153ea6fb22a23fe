"""Operators on types for which TVM makes no code, or none of the right type: in other types."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from collage_dsl.realization.replaced import with_functions

_SHORT = ("int8", "uint8", "int16", "uint16")
_UP_TO_32_BITS = (*_SHORT, "int32", "uint32")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")

_CALCULATE = (
    {"abs", "argmax", "argmin", "clip", "cumprod", "cumsum", "divide", "floor_divide", "floor_mod"}
    | {"greater", "greater_equal", "less", "less_equal", "matmul", "max", "mean", "min", "mod"}
    | {"negative", "nn.relu", "power", "prod", "sign", "square", "std", "subtract", "sum"}
    | {"variance"}
)
_WITHOUT_BFLOAT16 = {"floor_mod", "isfinite", "isinf", "isnan", "mod", "power", "sign"}
_AVERAGE = {"mean", "variance"} | {
    f"nn.{kind}avg_pool{rank}d" for rank in (1, 2, 3) for kind in ("", "adaptive_")
}

_TYPES: tuple[tuple[AbstractSet[str], Mapping[str, str]], ...] = (
    (_CALCULATE, {"bool": "float32"}),
    (
        {"argsort", "sort", "topk"},
        {"bool": "int32", **dict.fromkeys(_SHORT, "int32"), "uint32": "int64"},
    ),
    (_AVERAGE, dict.fromkeys(_UP_TO_32_BITS, "int64")),
    ({"std"}, dict.fromkeys((*_UP_TO_32_BITS, "int64", "uint64"), "float64")),
    ({"negative", "sign"}, dict.fromkeys(_UNSIGNED, "int64")),
    (_WITHOUT_BFLOAT16, {"bfloat16": "float32"}),
)
"""Operators, and for each type that they may take, the type in which they are computed."""


def in_wider_types(module: tvm.IRModule) -> tvm.IRModule:
    """
    `module` with conversions around these operators. Truth values are computed as 0 and 1, and a
    result of truth values says which numbers are not 0: a sum whether any is true, a product
    whether all are.
    """
    new = {
        var: _Wider(module).visit_expr(function)
        for var, function in module.functions_items()
        if isinstance(function, relax.Function) and _has_any(function)
    }
    return with_functions(module, {**dict(module.functions_items()), **new})


def _has_any(function: Any) -> bool:
    found = []

    def note(call: Any) -> None:
        if _wider(call):
            found.append(call)

    tvm_ffi.structural_walk(function, (relax.Call, note))
    return bool(found)


def _wider(call: Any) -> Mapping[str, str]:
    """In which type a call takes tensors of which type, if it takes any in another one."""
    name = str(getattr(call.op, "name", "")).removeprefix("relax.")
    types = {
        given: wider for names, types in _TYPES if name in names for given, wider in types.items()
    }
    return types if any(_dtype(each) in types for each in call.args) else {}


def _dtype(value: Any) -> str:
    """The type of the elements of a tensor; empty for other values."""
    return str(value.ty.dtype) if isinstance(value.ty, relax.TensorType) else ""


@relax.expr_functor.mutator
class _Wider(relax.PyExprMutator):
    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        types = _wider(call)
        if not types:
            return call
        arguments = [self.converted(each, types.get(_dtype(each))) for each in call.args]
        result = self.builder_.emit(relax.Call(call.op, arguments, call.attrs, call.ty_args))
        return self.as_before(result, call.ty)

    def converted(self, value: Any, dtype: str | None) -> Any:
        if dtype is None or dtype == _dtype(value):
            return value
        if isinstance(value, tvm.ir.GenericConst):  # A kernel has no tensors inside.
            return relax.const(value.value.numpy().astype(dtype), dtype)
        return self.builder_.emit(relax.op.astype(value, dtype))

    def as_before(self, value: Any, type_: Any) -> Any:
        """`value` with the types of elements of `type_`."""
        if not isinstance(type_, relax.TupleType):
            return self.converted(value, str(type_.dtype))
        fields = (relax.TupleGetItem(value, index) for index in range(len(type_.fields)))
        pairs = zip(map(self.builder_.emit, fields), type_.fields, strict=True)
        return relax.Tuple([self.as_before(field, each) for field, each in pairs])
