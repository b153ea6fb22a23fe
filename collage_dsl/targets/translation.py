"""Translate dataflow patterns of TVM into patterns of the language."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from re import ASCII, fullmatch
from typing import Any

from tvm import ir, tirx
from tvm.relax.dpl import pattern as dpl

from collage_dsl.frontend.attributes import plain as plain_attribute
from collage_dsl.frontend.errors import UnsupportedRelax
from collage_dsl.graph.operators import is_commutative, operators
from collage_dsl.graph.types import short_dtype
from collage_dsl.language.resolve.reserved import reserved
from collage_dsl.rules.condition import Attr, Compare, Constant, Dtype, Shape, Where, Within
from collage_dsl.rules.pattern import (
    Anything,
    Binding,
    Call,
    Either,
    FieldOf,
    ListOf,
    Operand,
    Parameter,
    Reference,
    TupleOf,
)

SWAPPED = frozenset({"add", "multiply"})
"""The operators whose operands TVM's matcher accepts in either order."""


class InexpressibleError(Exception):
    """The language cannot express a pattern, or it could never match; the message says why."""


class Translator:
    """Translates one dataflow pattern into the equations of a pattern of the language."""

    def __init__(self, annotations: Mapping[str, Any]) -> None:
        for name in sorted(annotations):
            if reserved(name) or not fullmatch(r"[A-Za-z_]\w*", name, ASCII):
                raise InexpressibleError(f"no file can say `{name}`, the name of a part")
        self.annotated = {
            hash(annotations[name]): name for name in sorted(annotations, reverse=True)
        }
        self.parameters: list[Parameter] = []
        self.bindings: list[Binding] = []
        self.conditions: list[Where] = []
        self.names: dict[int, str] = {}
        self.taken = set(self.annotated.values())

    def value(self, part: Any, wish: str, *, literal: bool = False) -> Operand:
        """The operand that matches `part`. Its name is `wish`, unless `part` is annotated."""
        known = self.names.get(hash(part))
        if known is not None:
            return Reference(known)
        match part:
            case dpl.WildcardPattern() if literal and hash(part) not in self.annotated:
                return Anything()
            case dpl.WildcardPattern() | dpl.ConstantPattern():
                name = self.name(part, wish)
                constant = isinstance(part, dpl.ConstantPattern)
                self.parameters.append(Parameter(name, constant))
                return Reference(name)
            case dpl.DataTypePattern():
                return self.typed(part, part.pattern, [part.dtype], wish)
            case dpl.ShapePattern():
                shape = tuple(map(_dim, part.shape))
                found = self.alias(part, part.pattern, wish)
                self.where(Compare("==", Shape(found.name), Constant(shape)))
                return found
            case dpl.OrPattern():
                return self.either(part, wish)
            case dpl.CallPattern() | dpl.AttrPattern():
                return self.bound(part, self.call(part), _last(_operator(part)))
            case dpl.TupleGetItemPattern():
                return self.bound(part, FieldOf(self.value(part.tuple, wish), part.index), "field")
            case dpl.TuplePattern():
                inner = tuple(self.value(field, wish) for field in part.fields)
                return self.bound(part, TupleOf(inner), "tuple")
            case dpl.PrimArrPattern() if literal:
                return ListOf(tuple(map(_dim, part.fields)))
        raise InexpressibleError(f"a {type(part).__name__} cannot be said")

    def call(self, part: Any) -> Operand:
        """The call that matches `part`; one for each number of operands where that is open."""
        op = _operator(part)
        table = operators()[op]
        if table.operands is None:
            raise InexpressibleError(f"it calls `{op}`, which takes any number of operands")
        attributes: tuple[Where, ...] = ()
        if isinstance(part, dpl.AttrPattern):
            attributes = tuple(_attribute(op, *each) for each in part.attrs.items())
            part = part.pattern
        most, least = len(table.operands), len(table.operands) - table.optional
        given = len(part.args)
        open_ended = _takes_more(part)
        if given > most or (given < least and not open_ended):
            raise InexpressibleError(
                f"no call matches it: `{op}` takes {most} operands, but the pattern gives {given}"
            )
        operands = tuple(
            self.value(arg, name, literal=name in table.literals)
            for arg, name in zip(part.args, table.operands, strict=False)
        )
        free = [dpl.WildcardPattern, dpl.ConstantPattern]
        ordered = (
            is_commutative(op) and op not in SWAPPED and any(type(a) not in free for a in part.args)
        )
        counts = range(max(least, given), most + 1) if open_ended else [given]
        calls = [
            Call((op,), operands + (Anything(),) * (n - given), attributes, ordered=ordered)
            for n in counts
        ]
        return calls[0] if len(calls) == 1 else Either(tuple(reversed(calls)))

    def either(self, part: Any, wish: str) -> Operand:
        """
        `a | b`. If the two differ only in a dtype, they become one with a condition. If they are
        one commutative call with its operands exchanged, they become one call.
        """
        ways = list(_ways(part))
        if all(isinstance(way, dpl.DataTypePattern) for way in ways):
            inner = [way.pattern for way in ways]
            if all(_same(inner[0], each) for each in inner[1:]):
                return self.typed(part, inner[0], [way.dtype for way in ways], wish)
        if len(ways) == 2 and _exchanged(*ways):
            return self.alias(part, ways[0], wish)
        raise InexpressibleError("its alternatives differ in structure")

    def typed(self, part: Any, inner: Any, dtypes: list[Any], wish: str) -> Reference:
        """The value of `inner`, with the condition that it has one of `dtypes`."""
        found = self.alias(part, inner, wish)
        names = tuple(short_dtype(str(dtype)) for dtype in dtypes)
        if len(names) == 1:
            self.where(Compare("==", Dtype(found.name), Constant(names[0])))
        else:
            self.where(Within(Dtype(found.name), Constant(names)))
        return found

    def alias(self, part: Any, inner: Any, wish: str) -> Reference:
        """`part` is the same value as `inner`; a condition in `part` is left to the caller."""
        if hash(part) in self.annotated:
            self.annotated.setdefault(hash(inner), self.annotated[hash(part)])
        found = self.value(inner, wish)
        assert isinstance(found, Reference)
        self.names[hash(part)] = found.name
        return found

    def bound(self, part: Any, value: Operand, wish: str) -> Reference:
        """A reference to `value`, bound to the name of `part`."""
        name = self.name(part, wish)
        self.bindings.append(Binding(name, value))
        return Reference(name)

    def name(self, part: Any, wish: str) -> str:
        """The name of `part`: its annotation, or else `wish`, with a number if that is taken."""
        name = self.annotated.get(hash(part), "")
        if not name:
            number, name = 1, wish
            while name in self.taken or reserved(name):
                number += 1
                name = f"{wish}_{number}"
        self.taken.add(name)
        self.names[hash(part)] = name
        return name

    def where(self, condition: Any) -> None:
        self.conditions.append(Where(condition))


def _operator(part: Any) -> str:
    """The operator of a call, without its prefix."""
    call = part.pattern if isinstance(part, dpl.AttrPattern) else part
    if not isinstance(call, dpl.CallPattern):
        raise InexpressibleError("it asks for an attribute of what is no call")
    if not isinstance(call.op, dpl.ExprPattern) or not isinstance(call.op.expr, ir.Op):
        raise InexpressibleError("it calls what is no operator")
    op = str(call.op.expr.name).removeprefix("relax.")
    if op.startswith("call_"):
        raise InexpressibleError(f"it matches a `{op}` of a function, which models do not have")
    if op not in operators():
        raise InexpressibleError(f"it calls `{op}`, which is not in the operator table")
    return op


def _takes_more(part: Any) -> bool:
    """
    Whether the call may have more operands than the pattern gives. Only the text of the pattern
    shows it.
    """
    return str(part).endswith(", ...)")


def _last(op: str) -> str:
    return op.split(".")[-1]


def _attribute(op: str, name: str, value: Any) -> Where:
    try:
        known: Any = plain_attribute(value)
    except UnsupportedRelax as problem:
        raise InexpressibleError(f"it asks what no condition can: {problem}") from problem
    table = operators()[op]
    if known is None and name not in table.may_be_none:
        raise InexpressibleError(f"no call matches it: `{name}` of `{op}` always has a value")
    if isinstance(known, tuple) and None in known:
        raise InexpressibleError(f"it asks for an element of `{name}` to have no value")
    if known is not None and table.attrs.get(name) == "dtype":
        known = short_dtype(str(known))
    return Where(Compare("==", Attr(str(name)), Constant(known)))


def _dim(dim: Any) -> int:
    if not isinstance(dim, int | tirx.IntImm):
        raise InexpressibleError("it asks for a shape that is not known")
    return int(dim)


def _ways(part: Any) -> Iterator[Any]:
    if isinstance(part, dpl.OrPattern):
        yield from _ways(part.left)
        yield from _ways(part.right)
    else:
        yield part


def _same(one: Any, other: Any) -> bool:
    """Whether two patterns, each by itself, match the same."""
    if one.same_as(other):
        return True
    match one, other:
        case dpl.WildcardPattern(), dpl.WildcardPattern():
            return True
        case dpl.CallPattern(), dpl.CallPattern():
            pairs = list(zip(one.args, other.args, strict=False))
            same = len(one.args) == len(other.args) and _operator(one) == _operator(other)
            return same and all(_same(a, b) for a, b in pairs)
    return False


def _exchanged(one: Any, other: Any) -> bool:
    """Whether the second is the first with the operands of a commutative operator exchanged."""
    if not (isinstance(one, dpl.CallPattern) and isinstance(other, dpl.CallPattern)):
        return False
    same = _operator(one) == _operator(other) and is_commutative(_operator(one))
    pairs = zip(one.args, reversed(list(other.args)), strict=False)
    return same and len(one.args) == len(other.args) == 2 and all(a.same_as(b) for a, b in pairs)


def plain(value: Any) -> Any:
    """The JSON of a part of a pattern: `{"Call": [["nn.relu"], [{"Reference": ["x"]}]]}`."""
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if not hasattr(value, "__dataclass_fields__"):
        return value
    given = [field for field in fields(value) if field.compare]
    while given and given[-1].default is not MISSING:
        if getattr(value, given[-1].name) != given[-1].default:
            break
        given.pop()
    return {type(value).__name__: [plain(getattr(value, field.name)) for field in given]}


def row(found: Any, number: int) -> dict[str, Any]:
    """A registered pattern, the `number`-th of its name, as one of `rows`."""
    annotations = {str(name): part for name, part in found.annotation_patterns.items()}
    name = str(found.name) if number == 1 else f"{found.name}-{number}"
    head = {"name": name, "check": found.check is not None}
    try:
        translator = Translator(annotations)
        if isinstance(found.pattern, dpl.TupleGetItemPattern):
            raise InexpressibleError(
                "its result is a field of a tuple, and TVM looks for patterns at calls only"
            )
        result = translator.value(found.pattern, "result")
        assert isinstance(result, Reference)
        names = ((a, translator.names.get(hash(part))) for a, part in sorted(annotations.items()))
        annotated = {a: name for a, name in names if name}  # some annotations are not in it
    except InexpressibleError as problem:
        return {**head, "annotations": sorted(annotations), "refused": str(problem)}
    return {
        **head,
        "annotations": annotated,
        "parameters": plain(tuple(translator.parameters)),
        "bindings": plain(tuple(translator.bindings)),
        "result": result.name,
        "conditions": plain(tuple(translator.conditions)),
    }


def rows(patterns: Iterable[Any]) -> list[dict[str, Any]]:
    """
    Registered patterns, in the form that `collage_dsl.language.resolve.pattern_tables` reads. The
    second pattern with the same name gets the name `name-2`.
    """
    seen: Counter[str] = Counter()
    result = []
    for pattern in patterns:
        seen[pattern.name] += 1
        result.append(row(pattern, seen[pattern.name]))
    return result
