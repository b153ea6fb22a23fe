"""Report tuples where operators take tensors, tensors where they take tuples, and wrong fields."""

from collections.abc import Iterator
from dataclasses import replace

from collage_dsl.graph.operators import of_onnx
from collage_dsl.language.messages.findings import Findings, listed, quoted
from collage_dsl.language.messages.hints import Hint, write
from collage_dsl.language.reasoning.findings.path_sorts import check_path
from collage_dsl.language.reasoning.findings.sorts_of_values import (
    Sorts,
    gives_no_tuple,
    refused_by_kinds,
)
from collage_dsl.language.reasoning.findings.value_sorts import List, Shape, Sort, Tensor, Tuple
from collage_dsl.language.reasoning.patterns.absence import can_hold
from collage_dsl.language.reasoning.patterns.pattern_shape import always_bound
from collage_dsl.language.syntax import ast
from collage_dsl.rules.condition import (
    AttrOf,
    Bytes,
    Dtype,
    Has,
    Holds,
    Size,
    Uses,
    Where,
    all_of,
    every_part,
    names,
)
from collage_dsl.rules.condition import Expression as Condition
from collage_dsl.rules.pattern import (
    Call,
    Either,
    FieldOf,
    Flat,
    Operand,
    PathFrom,
    Pattern,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
    TupleOfEach,
)
from collage_dsl.rules.predicate import PATTERN_TABLE
from collage_dsl.source import Span

Pair = tuple[Operand, ast.Operand]


def check_tuples(
    pattern: Pattern, written: ast.Pattern, known: dict[int, Sorts], findings: Findings
) -> None:
    """
    Report what in `pattern` can never match because a tuple is no tensor. Fills `known`.

    Patterns of TVM's tables are left out. Some of those never match, and nobody can correct them.
    """
    if any(_is_of_table(where.condition) for where in pattern.conditions):
        return
    checker = _Checker(Sorts.of_pattern(pattern, known), findings)
    values = {s.name.text: s.value for s in written.statements if isinstance(s, ast.Binding)}
    always = always_bound(pattern)
    for binding in pattern.bindings:
        if binding.name in values:  # lists get names of their own
            checker.forms(checker.sorts.demanded[binding.name], binding.value, values[binding.name])
            checker.operand(binding.value, values[binding.name], certain=binding.name in always)
    for where in pattern.conditions:
        checker.condition(where)


class _Checker:
    """
    Reports errors in parts that are `certain`: part of every match. Other parts may be absent, so
    that what is wrong there is a warning.
    """

    def __init__(self, sorts: Sorts, findings: Findings) -> None:
        self.sorts = sorts
        self.findings = findings

    def report(self, code: str, span: Span, message: str, hint: str, *, certain: bool) -> None:
        if certain:
            self.findings.error(code, span, message, hint)
        else:
            message = f"this part never matches: {message}"
            self.findings.warning("W0314", span, message, hint)

    def operand(self, operand: Operand, written: ast.Operand, *, certain: bool) -> None:
        match operand, written:
            case ((Call() | PatternCall()), ast.OperatorCall()):
                self.call(operand, written, certain=certain)
            case Flat(op, operands), ast.OperatorCall():
                for one, place in zip(operands, written.operands, strict=True):
                    takes = f"`{op}` takes {Tensor()}"
                    self.mismatch(takes, Tensor(), one, place, written, certain=certain)
                    self.operand(one, place, certain=certain)
            case FieldOf(inner, index), ast.FieldOf(of):
                said = self.findings.count
                self.field(inner, index, written, certain=certain)
                if self.findings.count == said:
                    self.result(self.sorts.most_results(inner), index, written, certain=certain)
                self.field_of_kind(inner, index, written)
                self.forms(Tuple(), inner, of)
                self.operand(inner, of, certain=certain)
            case Repeat(call, least), ast.Repeat():
                absent = replace(call, optional=call.optional or least == 0)
                self.call(absent, written.call, certain=certain)
                self.repeated(operand, written, certain=certain)
            case TupleOf(fields), ast.TupleOf(places):
                for one, place in zip(fields, places, strict=True):
                    self.operand(one, place, certain=certain)
            case PathFrom(_, inner), ast.PathFrom(origin=place):
                known = self.sorts, self.report, self.findings
                check_path(operand, written, *known, certain=certain)
                self.operand(inner, place, certain=certain)
            case TupleOfEach(inner), ast.TupleOfEach(field=place):
                self.operand(inner, place, certain=certain)
            case Either(choices), ast.Either(places):
                for one, place in zip(choices, places, strict=True):
                    self.operand(one, place, certain=False)

    def call(self, call: Call | PatternCall, written: ast.OperatorCall, *, certain: bool) -> None:
        who = f"`{written.operators[0].span.text}`"
        is_there = certain and not call.optional
        for at, (operand, place) in enumerate(zip(call.operands, written.operands, strict=True)):
            needed = self.needed(call, at)
            is_needed = is_there and not _may_be_absent(call, at)
            takes = f"{who} takes {needed}"
            self.refused_by_kinds(call, at, operand, place, written)
            self.mismatch(takes, needed, operand, place, written, certain=is_needed)
            for one, there in _fields(operand, place) if isinstance(needed, Tuple) else ():
                takes = f"{who} takes a tuple of tensors"
                self.mismatch(takes, Tensor(), one, there, written, certain=is_there)
            self.operand(operand, place, certain=certain if at == 0 else is_there)

    def needed(self, call: Call | PatternCall, at: int) -> Sort:
        """What `call` takes at the place `at`. Operators of ONNX take numbers as tensors."""
        found = self.sorts.needed(call, at)
        is_list = found is None and isinstance(self.sorts.of(call.operands[at]), List)
        return Tensor() if is_list and _is_of_onnx(call) else found

    def repeated(self, repeat: Repeat, written: ast.Repeat, *, certain: bool) -> None:
        """Report a call that does not take what it gives, so that it is not repeated."""
        needed, given = self.sorts.needed(repeat.call, 0), self.sorts.result(repeat.call)
        if repeat.most > 1 and needed and given and type(needed) is not type(given):
            who = f"`{written.call.operators[0].span.text}`"
            message = f"{who} takes {needed}, but gives {given}, so that it is not repeated"
            makes = "yields its field `.0`" if isinstance(given, Tuple) else "makes its operand"
            hint = f"repeat a pattern that has this call and {makes}"
            if repeat.least > 1:
                self.report("E0312", written.span, message, hint, certain=certain)
            else:
                message = f"at most one of these calls matches: {message}"
                self.findings.warning("W0314", written.span, message, hint)

    def mismatch(
        self,
        takes: str,
        needed: Sort,
        operand: Operand,
        place: ast.Operand,
        call: ast.OperatorCall,
        *,
        certain: bool,
    ) -> None:
        """Report an operand that is known to be something other than what is needed."""
        given = self.sorts.of(operand)
        self.forms(needed, operand, place)
        if not _differ(needed, given):
            return
        message = f"{takes}, but {quoted(place.span)} is {given}"
        hint = _fix(needed, given, place, call)
        self.report("E0312", place.span, message, hint, certain=certain)

    def forms(self, needed: Sort, operand: Operand, written: ast.Operand) -> None:
        """Report the forms of an operand that are not what is needed, where others may be."""
        if needed is None or self.sorts.of(operand) is not None:
            return
        match operand, written:
            case Either(choices), ast.Either(places):
                for choice, place in zip(choices, places, strict=True):
                    given = self.sorts.of(choice)
                    self.forms(needed, choice, place)
                    if _differ(needed, given):
                        message = f"{quoted(place.span)} is {given}, but {needed} is needed here"
                        is_tuple = isinstance(needed, Tensor) and isinstance(given, Tuple)
                        hint = _first_of(place) if is_tuple else "remove this alternative"
                        self.report("W0314", place.span, message, hint, certain=False)
            case ((Call(optional=True) | PatternCall(optional=True)), ast.OperatorCall()):
                self.presence(needed, operand, written)

    def presence(self, needed: Sort, call: Call | PatternCall, written: ast.OperatorCall) -> None:
        """Report an optional call that is never present, or never absent, because of its sort."""
        who = f"`{written.operators[0].span.text}`"
        present, absent = self.sorts.result(call), self.sorts.of(call.operands[0])
        if _differ(needed, present):
            message = f"{who} gives {present}, but {needed} is needed here"
            hint = _with_and_without(written) if isinstance(present, Tuple) else "remove this call"
            self.report("W0314", written.span, message, hint, certain=False)
        elif _differ(needed, absent):
            message = f"{who} is never absent: without it, {quoted(written.operands[0].span)} is "
            message += f"{absent}, but {needed} is needed here"
            hint = _with_and_without(written) if isinstance(present, Tuple) else "remove `?`"
            self.findings.warning("W0314", written.span, message, hint)

    def refused_by_kinds(
        self,
        call: Call | PatternCall,
        at: int,
        operand: Operand,
        place: ast.Operand,
        written: ast.OperatorCall,
    ) -> None:
        """Report an operand that no operator of a kind takes."""
        given = self.sorts.of(operand)
        if isinstance(call, Call) and refused_by_kinds(call, at, given):
            kinds = listed(map(str, call.kinds), "or")
            message = f"no operator of the kind {kinds} takes {given} here"
            is_fixed = isinstance(given, Tuple | Shape)
            hint = _fix(Tensor(), given, place, written) if is_fixed else ""
            self.report("W0314", place.span, message, hint, certain=False)

    def field_of_kind(self, of: Operand, index: int, written: ast.FieldOf) -> None:
        """Report a field of a call by kind, where no operator of the kind gives a tuple."""
        call = self.called(of)
        if isinstance(call, Call) and gives_no_tuple(call):
            kinds = listed(map(str, call.kinds), "or")
            message = f"no operator of the kind {kinds} gives a tuple, which has a field {index}"
            self.report("W0314", written.span, message, f"remove `.{index}`", certain=False)

    def called(self, of: Operand) -> Operand | None:
        """What a name stands for, or `of`."""
        return self.sorts.pattern.values.get(of.name) if isinstance(of, Reference) else of

    def field(self, operand: Operand, index: int, written: ast.FieldOf, *, certain: bool) -> None:
        text, of = quoted(written.of.span), self.sorts.of(operand)
        if isinstance(of, Tensor | Shape):
            message = f"{text} is {of}, which has no field {index}"
            call = self.called(operand)
            several = _GIVE_SEVERAL.get(call.ops[0]) if isinstance(call, Call) and call.ops else ""
            hint = several if several and index else f"remove `.{index}`"
            self.report("E0312", written.span, message, hint, certain=certain)
        elif isinstance(of, Tuple) and of.most is not None and index >= of.most:
            message = f"{text} is a tuple of at most {of.most} and has no field {index}"
            hint = f"fields are counted from 0: the last is `.{of.most - 1}`"
            self.report("E0313", written.span, message, hint, certain=certain)
        elif isinstance(of, Tuple) and of.fields is not None and index >= len(of.fields):
            message = f"{text} is a tuple of {len(of.fields)} and has no field {index}"
            hint = f"fields are counted from 0: the last is `.{len(of.fields) - 1}`"
            hint = hint if of.fields else ""
            self.report("E0313", written.span, message, hint, certain=certain)

    def result(self, most: int | None, index: int, written: ast.FieldOf, *, certain: bool) -> None:
        """Report a field that a call with at most so many results does not have."""
        if most is None or (index < most and most > 1):
            return
        text = quoted(written.of.span)
        if most == 1:
            message = f"{text} has only one result, which has no field {index}"
            self.report("E0312", written.span, message, f"remove `.{index}`", certain=certain)
        else:
            message = f"{text} has at most {most} results and no field {index}"
            hint = f"fields are counted from 0: the last is `.{most - 1}`"
            self.report("E0313", written.span, message, hint, certain=certain)

    def condition(self, where: Where) -> None:
        """Report a condition that is unknown, because it asks a tuple for its dtype or shape."""
        if where.span is None:
            return
        for condition in all_of(where.condition):
            for name in sorted(_asked(condition)):
                sort = self.sorts.names.get(name) or self.sorts.demanded.get(name)
                if (
                    isinstance(sort, List)
                    and not can_hold(condition, name)
                    and _asks_tensor(condition, name)
                ):
                    message = f"`{name}` is a list, which has no dtype and no size"
                    hint = f"`rank({name})` is how many items it has, `dim({name}, 0)` is the first"
                    self.findings.error("E0302", where.span, message, hint)
                if isinstance(sort, Tuple | Shape) and not can_hold(condition, name):
                    message = f"`{name}` is {sort}, which has no dtype and no dimensions"
                    hint = f"name a tensor of it, `t = {name}.0;`, and ask about `t`"
                    hint = hint if isinstance(sort, Tuple) else ""
                    self.findings.error("E0302", where.span, message, hint)


_GIVE_SEVERAL = {
    "median": "with one number in `axis`, it gives the places too",
    "vision.non_max_suppression": "with `return_indices == true`, it gives their places too",
    "topk": 'with `ret_type == "both"`, it gives the places too',
}
"""How to get the second result of operators whose attributes say how many they give."""


def _differ(needed: Sort, given: Sort) -> bool:
    """Whether it is known that what is given is not what is needed."""
    if needed is None or given is None or type(needed) is type(given):
        return False
    # `shape_to_tensor` takes both; for others, it is reported with the operand.
    return not (isinstance(needed, List) and isinstance(given, Shape))


def _with_and_without(call: ast.OperatorCall) -> str:
    """A hint to write an optional call that gives a tuple as two alternatives."""
    name, text = call.operators[0].span.text, _text(call)
    text = text.replace("?(", "(", 1) if text.startswith(name) else f"{name}(…)"
    return f"`({text}.0 | {_text(call.operands[0])})` is a tensor with this call and without it"


def _is_of_onnx(call: Call | PatternCall) -> bool:
    """Whether all operators that a call may be are those of ONNX."""
    return isinstance(call, Call) and not call.kinds and of_onnx().issuperset(call.ops)


def _may_be_absent(call: Call | PatternCall, at: int) -> bool:
    """Whether what takes this operand may be absent in the pattern that is called."""
    return isinstance(call, PatternCall) and call.pattern.parameters[at].optional


def _fields(operand: Operand, written: ast.Operand) -> Iterator[Pair]:
    """What is written as the fields of a tuple."""
    match operand, written:
        case TupleOf(fields), ast.TupleOf(places):
            yield from zip(fields, places, strict=True)
        case TupleOfEach(field), ast.TupleOfEach(field=place):
            yield field, place


def _is_of_table(condition: Condition) -> bool:
    return isinstance(condition, Holds) and condition.predicate.source.startswith(PATTERN_TABLE)


def _asked(condition: Condition) -> frozenset[str]:
    """The names that `condition` asks only for what tensors have."""
    of_any = (e for e in every_part(condition) if isinstance(e, Uses | Has | Holds | AttrOf))
    return names(condition) - frozenset().union(*map(names, of_any))


def _asks_tensor(condition: Condition, name: str) -> bool:
    """Whether `condition` asks `name` for something that only tensors have, and lists lack."""
    asked = (part for part in every_part(condition) if isinstance(part, Dtype | Size | Bytes))
    return any(part.of == name for part in asked)


def _fix(needed: Sort, given: Sort, place: ast.Operand, call: ast.OperatorCall) -> str:
    text = _text(place)
    match needed, given:
        case Tensor(), Tuple():
            return _first_of(place)
        case Tensor(), Shape():
            return f"`shape_to_tensor({text})` is a tensor"
        case _, List():
            return write("_", f" for any {str(needed)[2:]}; lists are only shapes and bounds")
        case Tuple(), _:
            return f"write `{call.operators[0].span.text}(({text}, …))`"
    return ""


def _first_of(place: ast.Operand) -> str:
    """A hint to make a tensor of a tuple."""
    text = _text(place)
    match place:
        case ast.TupleOfEach():
            return "`each` stands for a tuple, as `concat` and `stack` take it"
        case ast.TupleOf():
            return f"give one tensor, such as `concat({text})`, which joins them"
        case _:
            hint = f"write `{text}.0` for its first tensor"
            return Hint(hint, f"{text}.0") if isinstance(place, ast.Name) else hint


def _text(place: ast.Operand) -> str:
    text = quoted(place.span, "").strip("`") or "…"
    is_open = isinstance(place, ast.Repeat | ast.TupleOfEach | ast.PathFrom)
    return f"({text})" if is_open else text
