"""
Arithmetic with dimensions of inputs: what `Shape` gives, and what is computed from it.

Exporters write a shape such as `[batch, length, 12, 64]` as several nodes: `Shape`, `Gather`,
`Mul`, `Concat`. Here they are computed before anything runs, with a variable for each dimension
that is no number, so that a `Reshape` to the result is an ordinary one.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import onnx
import tvm
from tvm import sym, tirx

from collage_dsl.frontend.onnx_constants import attributes
from collage_dsl.graph.arrays import Array

Size = Any
"""An integer, or an expression of TVM with variables for dimensions."""

_MOST = 256
"""The most elements that are computed one by one."""

_LARGEST = 1 << 31
"""Dimensions are taken to be smaller."""


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """A small tensor of integers that follow from dimensions: an array of `Size`, and its dtype."""

    values: np.ndarray[Any, np.dtype[np.object_]]
    dtype: str = "int64"

    @property
    def known(self) -> Array | None:
        """The values, if all are numbers."""
        if all(isinstance(each, int) for each in self.values.flat):
            return self.values.astype(self.dtype)
        return None


def sizes_of(values: Sequence[Size], dtype: str = "int64") -> Sizes:
    """A vector of `Sizes`."""
    return Sizes(_array(list(values), (len(values),)), dtype)


class Arithmetic:
    """
    Computes nodes of `Sizes`. `symbols` are the dimensions of inputs. They are at least 1, or as
    large as `least` says: a compiled model refuses inputs of which one with a name is smaller.
    """

    def __init__(self, symbols: Mapping[str, Any], least: Mapping[str, int]) -> None:
        self.symbols = symbols
        self.least = least
        self._analyzer = sym.Analyzer()
        self.bound = 0
        self.is_doubtful = False
        """Whether a size was not divided, since it may be negative."""

    def computed(
        self, node: onnx.NodeProto, inputs: Sequence[Sizes | Array | None]
    ) -> Sizes | Array | None:
        """The output of a node, if it is one of `Sizes` or becomes a constant."""
        compute = _OPERATORS.get(node.op_type)
        given = [each for each in inputs if each is not None]
        if compute is None or len(given) < len(inputs) or not all(map(_is_small, given)):
            return None
        try:
            made = compute(self, [_objects(each) for each in given], attributes(node))
        except (IndexError, KeyError, TypeError, ValueError):  # What does not fit is said later.
            return None
        if made is None:
            return None
        if not isinstance(made, np.ndarray):  # numpy's form of the element of a scalar
            made = _array([made], ())
        if made.size > _MOST:
            return None
        if made.size and all(isinstance(each, bool) for each in made.flat):
            return made.astype(np.bool_)
        first = next((each for each in given if isinstance(each, Sizes)), given[0])
        dtype = _cast_to(node) or str(first.dtype)
        simple = [self.simple(each) for each in made.flat]
        result = Sizes(_array(simple, made.shape), dtype)
        return result if result.known is None else result.known

    @property
    def analyzer(self) -> sym.Analyzer:
        """TVM's analyzer, which knows the ranges of all dimensions found so far."""
        for name, symbol in list(self.symbols.items())[self.bound :]:
            self._analyzer.bind(symbol, tvm.ir.Range(self.least.get(name, 1), _LARGEST))
        self.bound = len(self.symbols)
        return self._analyzer

    def simple(self, size: Size) -> Size:
        """`size` as TVM simplifies it; an integer where it is one."""
        if isinstance(size, int | np.integer):
            return int(size)
        made = self.analyzer.simplify(size)
        return int(made.value) if isinstance(made, tirx.IntImm) else made

    def is_proven(self, claim: Any) -> bool:
        """Whether a comparison holds for all sizes that dimensions can have."""
        return bool(claim) if isinstance(claim, bool) else self.analyzer.can_prove(claim)

    def is_at_least(self, size: Size, least: Size) -> bool:
        return self.is_proven(size >= least)

    def is_equal(self, one: Size, other: Size) -> bool:
        """Whether two sizes are always the same."""
        if isinstance(one, int) and isinstance(other, int):
            return one == other
        return bool(self.analyzer.can_prove(tirx.EQ(as_expr(one), as_expr(other))))

    def is_never(self, one: Size, other: Size) -> bool:
        """Whether two sizes are never the same."""
        if isinstance(one, int) and isinstance(other, int):
            return one != other
        return bool(self.analyzer.can_prove(tirx.NE(as_expr(one), as_expr(other))))

    def larger(self, one: Size, other: Size) -> Size:
        if self.is_at_least(one, other):
            return one
        return other if self.is_at_least(other, one) else tirx.max(as_expr(one), as_expr(other))

    def smaller(self, one: Size, other: Size) -> Size:
        if self.is_at_least(one, other):
            return other
        return one if self.is_at_least(other, one) else tirx.min(as_expr(one), as_expr(other))

    def quotient(self, dims: Sequence[Size], by: Sequence[Size]) -> Size:
        """
        The product of `dims` over that of `by`, in which equal dimensions cancel. Raises
        ZeroDivisionError.
        """
        left, below = list(dims), []
        for size in by:
            same = next((i for i, each in enumerate(left) if self.is_equal(each, size)), None)
            if same is None:
                below.append(size)
            else:
                del left[same]
        above = [each for each in left if not isinstance(each, int)]
        divisors = [each for each in below if not isinstance(each, int)]
        number = reduce(operator.mul, (each for each in left if isinstance(each, int)), 1)
        divisor = reduce(operator.mul, (each for each in below if isinstance(each, int)), 1)
        if divisor == 0:
            raise ZeroDivisionError
        if number % divisor == 0:
            number, divisor = number // divisor, 1
        product = reduce(operator.mul, above, number)
        total = reduce(operator.mul, divisors, divisor)
        return product if isinstance(total, int) and total == 1 else self.simple(product // total)


def _array(values: Sequence[Size], shape: tuple[int, ...]) -> Array:
    made = np.empty(len(values), object)
    for place, value in enumerate(values):
        made[place] = value
    return made.reshape(shape)


def _objects(value: Sizes | Array) -> Array:
    if isinstance(value, Sizes):
        return value.values
    return _array(value.ravel().tolist(), value.shape)


def _is_small(value: Sizes | Array) -> bool:
    """Whether a tensor has few elements, and integers."""
    if isinstance(value, Sizes):
        return True
    return value.size <= _MOST and value.dtype.kind in "iub"


def as_expr(size: Size) -> Any:
    """A size as an expression of TVM."""
    return tirx.IntImm("int64", size) if isinstance(size, int) else size


def _cast_to(node: onnx.NodeProto) -> str:
    if node.op_type != "Cast":
        return ""
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(attributes(node)["to"])).name


# ---- Operators ----

_Arrays = Sequence[Array]
_Made = Array | None
_Compute = Callable[[Arithmetic, _Arrays, Mapping[str, Any]], _Made]


def _each(function: Callable[[Arithmetic, Size, Size], Any]) -> _Compute:
    """Computes two operands element by element; nothing if one element cannot be computed."""

    def compute(at: Arithmetic, given: _Arrays, _: Mapping[str, Any]) -> _Made:
        one, other = np.broadcast_arrays(*given)
        made = [function(at, x, y) for x, y in zip(one.flat, other.flat, strict=True)]
        return None if any(each is None for each in made) else _array(made, one.shape)

    return compute


def _divided(at: Arithmetic, x: Size, y: Size) -> Size | None:
    """ONNX divides towards zero, so both must not be negative."""
    if isinstance(y, int) and y == 0:
        return None
    return x // y if _are_divided(at, x, y) else None


def _rest(at: Arithmetic, x: Size, y: Size) -> Size | None:
    return x % y if _are_divided(at, x, y) else None


def _are_divided(at: Arithmetic, x: Size, y: Size) -> bool:
    found = at.is_at_least(x, 0) and at.is_at_least(y, 1)
    at.is_doubtful = at.is_doubtful or not found
    return found


def _same(at: Arithmetic, x: Size, y: Size) -> bool | None:
    if at.is_equal(x, y):
        return True
    return False if at.is_proven(x < y) or at.is_proven(y < x) else None


def _less(at: Arithmetic, x: Size, y: Size) -> bool | None:
    if at.is_proven(x < y):
        return True
    return False if at.is_at_least(x, y) else None


def _less_or_equal(at: Arithmetic, x: Size, y: Size) -> bool | None:
    greater = _less(at, y, x)
    return None if greater is None else not greater


def _negated(_: Arithmetic, given: _Arrays, attrs: Mapping[str, Any]) -> _Made:
    return -given[0]


def _taken(_: Arithmetic, given: _Arrays, attrs: Mapping[str, Any]) -> _Made:
    data, indices = given
    return np.take(data, _integers(indices), axis=attrs.get("axis", 0))


def _sliced(_: Arithmetic, given: _Arrays, attrs: Mapping[str, Any]) -> _Made:
    data, *bounds = given
    if bounds:
        starts, ends, *rest = (_integers(each).tolist() for each in bounds)
    else:
        starts, ends = list(attrs["starts"]), list(attrs["ends"])
        rest = [list(attrs["axes"])] if "axes" in attrs else []
    axes = rest[0] if rest else range(len(starts))
    steps = rest[1] if len(rest) > 1 else [1] * len(starts)
    places = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = data.shape[axis]
        if step < 0:  # numpy takes nothing from a start before the first element on
            start, end = max(start, -size), None if end < -size else end
        places[axis] = slice(start, end, step)
    return data[tuple(places)]


def _squeezed(_: Arithmetic, given: _Arrays, attrs: Mapping[str, Any]) -> _Made:
    axes = _axes(given, attrs)
    return np.squeeze(given[0]) if axes is None else np.squeeze(given[0], tuple(axes))


def _unsqueezed(_: Arithmetic, given: _Arrays, attrs: Mapping[str, Any]) -> _Made:
    return np.expand_dims(given[0], tuple(_axes(given, attrs) or ()))


def _axes(given: _Arrays, attrs: Mapping[str, Any]) -> list[int] | None:
    if len(given) > 1:
        return [int(axis) for axis in given[1].flat]
    return list(attrs["axes"]) if "axes" in attrs else None


def _joined(_: Arithmetic, given: _Arrays, attrs: Mapping[str, Any]) -> _Made:
    return np.concatenate(list(given), axis=attrs["axis"])


def _reshaped(_: Arithmetic, given: _Arrays, attrs: Mapping[str, Any]) -> _Made:
    data, shape = given
    dims = [int(dim) for dim in shape.flat]
    if not attrs.get("allowzero"):
        dims = [data.shape[axis] if dim == 0 else dim for axis, dim in enumerate(dims)]
    return data.reshape(dims)


def _cast(_: Arithmetic, given: _Arrays, attrs: Mapping[str, Any]) -> _Made:
    is_integer = attrs["to"] in (onnx.TensorProto.INT64, onnx.TensorProto.INT32)
    return given[0] if is_integer else None


def _chosen(_: Arithmetic, given: _Arrays, attrs: Mapping[str, Any]) -> _Made:
    condition, one, other = np.broadcast_arrays(*given)
    if not all(isinstance(each, bool) for each in condition.flat):
        return None
    triples = zip(condition.flat, one.flat, other.flat, strict=True)
    return _array([x if wanted else y for wanted, x, y in triples], condition.shape)


def _expanded(_: Arithmetic, given: _Arrays, attrs: Mapping[str, Any]) -> _Made:
    data, shape = given
    wanted = np.empty([int(dim) for dim in shape.flat])
    return np.broadcast_arrays(data, wanted)[0]


def _reduced(function: Callable[[Any, Any], Any], first: int) -> _Compute:
    def compute(at: Arithmetic, given: _Arrays, attrs: Mapping[str, Any]) -> _Made:
        data, axes = given[0], _axes(given, attrs)
        if data.ndim != 1 or axes not in (None, [0], [-1]):
            return None
        total = reduce(function, data.flat, first)
        return _array([total], (1,) if attrs.get("keepdims", 1) else ())

    return compute


def _integers(array: Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    return array.astype(np.int64)


_OPERATORS: Mapping[str, _Compute] = {
    "Add": _each(lambda _, x, y: x + y),
    "Cast": _cast,
    "Concat": _joined,
    "Div": _each(_divided),
    "Equal": _each(_same),
    "Expand": _expanded,
    "Gather": _taken,
    "Greater": _each(lambda at, x, y: _less(at, y, x)),
    "GreaterOrEqual": _each(lambda at, x, y: _less_or_equal(at, y, x)),
    "Less": _each(_less),
    "LessOrEqual": _each(_less_or_equal),
    "Max": _each(Arithmetic.larger),
    "Min": _each(Arithmetic.smaller),
    "Mod": _each(_rest),
    "Mul": _each(lambda _, x, y: x * y),
    "Neg": _negated,
    "ReduceProd": _reduced(operator.mul, 1),
    "ReduceSum": _reduced(operator.add, 0),
    "Reshape": _reshaped,
    "Slice": _sliced,
    "Squeeze": _squeezed,
    "Sub": _each(lambda _, x, y: x - y),
    "Unsqueeze": _unsqueezed,
    "Where": _chosen,
}
