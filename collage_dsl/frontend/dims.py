"""Convert symbolic dimensions to text and back: `n`, `n * 2`, `(n + 1) // 2`."""

import ast
import operator
from collections.abc import Callable
from typing import Any

import tvm
from tvm import tirx

from collage_dsl.frontend.errors import UnsupportedRelax, UnsupportedValue
from collage_dsl.graph import Dim
from collage_dsl.graph.sizes import UNKNOWN as UNKNOWN

Symbols = dict[str, Any]
"""The TIR variable of each symbolic dimension, by name. New names are added when they occur."""

_INFIX: dict[type, str] = {
    tirx.Add: "+",
    tirx.Sub: "-",
    tirx.Mul: "*",
    tirx.FloorDiv: "//",
    tirx.FloorMod: "%",
}
_PREFIX: dict[type, str] = {tirx.Min: "min", tirx.Max: "max"}

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {"min": tirx.min, "max": tirx.max}


def dim_of(expr: Any) -> Dim:
    """A dimension of a Relax shape as a number, or as text that `expr_of` can read."""
    if isinstance(expr, int):
        return expr
    if isinstance(expr, tirx.IntImm):
        return int(expr.value)
    return _text(expr)


def has_text(expr: Any) -> bool:
    """Whether `dim_of` can represent a dimension."""
    try:
        dim_of(expr)
    except UnsupportedRelax:
        return False
    return True


def _text(expr: Any) -> str:
    if isinstance(expr, tirx.IntImm):
        return str(expr.value)
    if isinstance(expr, tirx.Var):
        return str(expr.name)
    if isinstance(expr, tirx.Cast):
        return _text(expr.value)
    if (sign := _INFIX.get(type(expr))) is not None:
        return f"{_operand(expr.a)} {sign} {_operand(expr.b)}"
    if (name := _PREFIX.get(type(expr))) is not None:
        return f"{name}({_text(expr.a)}, {_text(expr.b)})"
    raise UnsupportedValue(f"the dimension `{expr}` cannot be represented")


def _operand(expr: Any) -> str:
    return f"({_text(expr)})" if type(expr) in _INFIX else _text(expr)


_NO_EXPRESSION = (
    ArithmeticError,
    MemoryError,
    RecursionError,
    SyntaxError,
    ValueError,
    tvm.error.InternalError,
)
"""What parsing or building raises for a text that is no expression; TVM's for `n // 0`."""


def expr_of(dim: Dim, symbols: Symbols) -> Any:
    """The TIR expression of `dim`, with the variables of `symbols`; adds new ones to it."""
    if isinstance(dim, int):
        return tirx.IntImm("int64", dim)
    if dim.isidentifier():
        return _symbol(dim, symbols)
    try:
        return _evaluate(ast.parse(dim, mode="eval").body, symbols)
    except _NO_EXPRESSION:
        return _symbol(dim, symbols)  # a model may call a dimension anything


def _symbol(name: str, symbols: Symbols) -> Any:
    if name not in symbols:
        symbols[name] = tirx.Var(name, "int64")
    return symbols[name]


def _evaluate(tree: ast.expr, symbols: Symbols) -> Any:
    match tree:
        case ast.Constant(value=int() as number):
            return tirx.IntImm("int64", number)
        case ast.UnaryOp(ast.USub(), ast.Constant(value=int() as number)):
            return tirx.IntImm("int64", -number)
        case ast.Name(id=name):
            return _symbol(name, symbols)
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_evaluate(left, symbols), _evaluate(right, symbols))
        case ast.Call(func=ast.Name(id=name), args=[left, right]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_evaluate(left, symbols), _evaluate(right, symbols))
    raise ValueError("not an expression of dimensions")
