"""Warn of calls of ONNX operators in whose place models have operators of Relax."""

from collections.abc import Sequence

from collage_dsl.graph.operators import Operator, RelaxForm, operators, without_code
from collage_dsl.language.messages.findings import Findings, listed
from collage_dsl.language.reasoning.patterns.pattern_shape import calls, written_in_all
from collage_dsl.language.syntax import ast
from collage_dsl.rules.condition import (
    Attr,
    AttrOf,
    Compare,
    Constant,
    Dtype,
    Expression,
    Not,
    Rank,
    Shape,
    Within,
    every_part,
)
from collage_dsl.rules.parts import wheres
from collage_dsl.rules.pattern import (
    Call,
    Either,
    FieldOf,
    Operand,
    Parameter,
    Pattern,
    Reference,
    TupleOf,
)
from collage_dsl.source import Span


def check_forms(pattern: Pattern, findings: Findings) -> None:
    """
    Warn of each call of an ONNX operator that `from_onnx` writes with operators of Relax, unless
    the pattern may be about nodes that stay: it asks for what may be why they do, or has both.
    """
    found = [call for binding in pattern.bindings for call in calls(binding.value)]
    if without_code().isdisjoint(op for call in found for op in call.ops):
        return
    everything = [part for part in written_in_all(pattern) if isinstance(part, Call)]
    if not all(map(_has_known_shape, everything)):
        return
    expressions = [part for where in wheres(pattern) for part in every_part(where.condition)]
    others = {op for call in everything for op in call.ops}
    has_choices = any(isinstance(part, Either) for part in written_in_all(pattern))
    for call in found:
        known = [operators()[op] for op in call.ops]
        forms = [operator.form for operator in known if operator.form is not None]
        if call.kinds or not forms or len(forms) < len(known):
            continue
        if has_choices and any(others & {*each} for form in forms for each in form.ops):
            continue
        if all(_is_usual(call, each, pattern, expressions) for each in known):
            assert call.span is not None
            _report(known, call.span, findings)


def check_listed(names: Sequence[ast.Name], findings: Findings) -> None:
    """
    Warn of each ONNX operator in a list that `from_onnx` writes with operators of Relax, unless the
    list has these too.
    """
    listed_ops = {name.text for name in names}
    for name in names:
        found = operators().get(name.text)
        form = found.form if found else None
        if found and form and not any(listed_ops & {*ops} for ops in form.ops):
            _report([found], name.span, findings)


def _has_known_shape(call: Call) -> bool:
    """
    Whether the shapes of the results follow from those of the operands, so that what takes them
    does not stay as it is.
    """
    known = (operators()[op] for op in call.ops if op in without_code())
    return all(each.form is not None or each.sized for each in known)


def _is_usual(call: Call, called: Operator, pattern: Pattern, asked: list[Expression]) -> bool:
    """Whether the nodes that the pattern asks for get their form in Relax."""
    form = called.form
    assert form is not None
    if called.operands is not None and len(call.operands) not in form.operands:
        return False
    inside = [part for where in call.attributes for part in every_part(where.condition)]
    attrs = {part.name for part in inside if isinstance(part, Attr)}
    attrs |= {part.name for part in asked if isinstance(part, AttrOf)} & called.attrs.keys()
    if not attrs <= form.attrs or not _dtypes_in(asked) <= form.dtypes:
        return False
    if form.ranks and any(isinstance(part, Rank | Shape) for part in asked):
        return False
    if max(form.results) == 1 and _has_fields(call, pattern):
        return False
    needs_constants = len(call.operands) in form.constants
    return not needs_constants or all(_may_be_constant(each, pattern) for each in call.operands[1:])


def _dtypes_in(asked: list[Expression]) -> set[str]:
    """The dtypes that conditions name; "other" if some exclude dtypes."""
    found: set[str] = set()
    for each in asked:
        match each:
            case Compare("==", Dtype(), Constant(str(dtype))):
                found.add(dtype)
            case Compare("==", Constant(str(dtype)), Dtype()):
                found.add(dtype)
            case Within(Dtype(), Constant(tuple(dtypes))):
                found.update(map(str, dtypes))
            case Not(condition) if any(isinstance(part, Dtype) for part in every_part(condition)):
                found.add("other")
            case Compare(_, Dtype(), Constant()) | Compare(_, Constant(), Dtype()):
                found.add("other")
    return found


def _has_fields(call: Call, pattern: Pattern) -> bool:
    """Whether the pattern takes a field of the value of `call`."""
    names = {binding.name for binding in pattern.bindings if binding.value == call}
    fields = (part.of for part in written_in_all(pattern) if isinstance(part, FieldOf))
    return any(of == call or (isinstance(of, Reference) and of.name in names) for of in fields)


def _may_be_constant(operand: Operand, pattern: Pattern) -> bool:
    match operand:
        case Reference(name):
            parameter = pattern.parameter(name)
            return parameter is not None and not _excludes_constants(parameter)
        case Call() | FieldOf() | TupleOf():
            return False
        case _:
            return True


def _excludes_constants(parameter: Parameter) -> bool:
    return parameter.excluded is not None and parameter.excluded.constants


def _report(called: Sequence[Operator], span: Span, findings: Findings) -> None:
    forms = [operator.form for operator in called if operator.form is not None]
    names = listed([operator.name for operator in called])
    main = dict.fromkeys(op for form in forms for op in form.ops[0])
    if not main:
        message = f"models have no {names}: it is computed or removed as they are read"
        hint = "write what it takes in its place, or `_` for any value"
        findings.warning("W0336", span, message, hint)
        return
    has_several = any(len(form.ops[0]) > 1 for form in forms)
    stays = "stays" if len(called) == 1 else "stay"
    where = "where shapes, dtypes or attributes are unusual"
    if any("f32" in form.dtypes and "f16" not in form.dtypes for form in forms):
        where = "where the dtype is not f32, or where shapes or attributes are unusual"
    have = listed(main, "and" if has_several else "or")
    message = f"models have {have} here: {names} {stays} only {where}"
    findings.warning("W0336", span, message, _hint(forms))


def _hint(forms: Sequence[RelaxForm]) -> str:
    shown = "`collage show MODEL` prints them"
    if any(len(form.ops[0]) > 1 for form in forms):
        return f"its form in Relax has several operators: {shown}"
    every = [ops for form in forms for ops in form.ops]
    single = dict.fromkeys(op for ops in every if len(ops) == 1 for op in ops)
    has_more = any(len(ops) > 1 for ops in every)
    return f"write {listed(single)}" + f"; some nodes become several operators: {shown}" * has_more
