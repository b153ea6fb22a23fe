"""Write fusion specs as canonical text. Reading it gives equal specs."""

from collections.abc import Iterator, Mapping
from typing import assert_never

from collage_dsl.graph import Measuring
from collage_dsl.graph.operators import operators
from collage_dsl.graph.types import long_dtype
from collage_dsl.language.reasoning.patterns.pattern_shape import called
from collage_dsl.language.resolve.measuring import duration, percentage
from collage_dsl.language.resolve.predicates import predicates_of
from collage_dsl.language.write.quoting import quoted
from collage_dsl.language.write.rule_printer import limit_texts, rule_text
from collage_dsl.rules import (
    DFPattern,
    FusionRule,
    FusionSpec,
    OpPredicate,
    Pattern,
    sub_rules,
)
from collage_dsl.rules import condition as conditions
from collage_dsl.rules.condition import TOLERANCE, Expression, Value, Where
from collage_dsl.rules.parts import every_operand
from collage_dsl.rules.pattern import (
    OPEN,
    Call,
    Either,
    Excluded,
    FieldOf,
    ListOf,
    Number,
    Operand,
    Parameter,
    PathFrom,
    Repeat,
    TupleOfEach,
)
from collage_dsl.rules.placement import ByName, ByOperator, Placement
from collage_dsl.rules.predicate import Predicate
from collage_dsl.rules.written import (
    operand_text,
    parameter_text,
    question_text,
)

_LEVELS = ("or", "and", "not", "comparison", "sum", "product", "atom")
"""Sorts of expressions by precedence, the loosest first."""


def to_text(spec: FusionSpec | Mapping[str, FusionSpec]) -> str:
    """
    The text of one spec, or of all specs of a file, with the patterns and predicates they use:
    `load(text=to_text(spec))[spec.name] == spec`.

    Raises ValueError for what the language cannot express: two different patterns, or predicates,
    with the same name.
    """
    if not isinstance(spec, FusionSpec | Mapping):
        raise TypeError(f"`spec` of `to_text` must be a FusionSpec, not {type(spec).__name__}")
    specs = [spec] if isinstance(spec, FusionSpec) else list(spec.values())
    patterns: dict[str, Pattern] = {}
    for pattern in (p for spec in specs for p in patterns_of(spec.rule)):
        if patterns.setdefault(pattern.name, pattern) != pattern:
            raise ValueError(f"two patterns are named `{pattern.name}`")
    predicates: dict[str, Predicate] = {}
    for predicate in (p for spec in specs for p in predicates_in(spec.rule)):
        if predicates.setdefault(predicate.name, predicate) != predicate:
            raise ValueError(f"two predicates are named `{predicate.name}`")
    declared = "\n".join(map(_predicate, predicates.values()))
    parts = ["collage 1;", *([declared] if declared else [])]
    parts += [*map(_pattern, patterns.values()), *map(_target, specs)]
    placements = [_placement(spec.name, each) for spec in specs for each in spec.placements]
    parts += ["\n".join(placements)] if placements else []
    return "\n\n".join(parts) + "\n"


def patterns_of(rule: FusionRule) -> Iterator[Pattern]:
    """The patterns that `rule` uses, each before its callers; some several times."""
    if isinstance(rule, DFPattern):
        yield from called(rule.pattern)
        yield rule.pattern
    for inner in sub_rules(rule):
        yield from patterns_of(inner)


def predicates_in(rule: FusionRule) -> Iterator[Predicate]:
    """The predicates that `rule` uses and a file declares; some several times."""
    if isinstance(rule, OpPredicate) and not rule.predicate.backend:
        yield rule.predicate
    if isinstance(rule, DFPattern):
        for pattern in patterns_of(rule):
            yield from predicates_of(pattern)
    for inner in sub_rules(rule):
        yield from predicates_in(inner)


def _predicate(predicate: Predicate) -> str:
    parameters = ", ".join(predicate.parameters)
    source = quoted(predicate.source)
    return f"extern predicate {predicate.name}({parameters}) from {source};"


# Patterns.


def _pattern(pattern: Pattern) -> str:
    parameters = ", ".join(map(_parameter, pattern.parameters))
    bindings = (f"  {b.name} = {_operand(b.value)};" for b in pattern.bindings)
    wheres = map(_where, pattern.conditions)
    taps = ["  taps allowed;"] if pattern.taps else []
    anchor = [f"  anchor {pattern.anchor};"] if pattern.anchor else []
    results = ", ".join(pattern.results)
    lines = [*bindings, *wheres, *taps, *anchor, f"  yield {results};"]
    return "\n".join([f"pattern {pattern.name}({parameters}) {{", *lines, "}"])


def _parameter(parameter: Parameter) -> str:
    excluded = parameter.excluded
    if excluded is not None and (parameter.constant or excluded == Excluded()):
        raise ValueError(f"what `{parameter.name}` is not cannot be written")
    return parameter_text(parameter)


def _operand(operand: Operand) -> str:
    for part in every_operand(operand):
        if why := _unwritable(part):
            raise ValueError(why)
    return operand_text(operand, _brackets)


def _unwritable(operand: Operand) -> str:
    """Why the language cannot express `operand`, whatever is in it; empty if it can."""
    match operand:
        case Number(_, tolerance) if not 0 <= tolerance < 1:
            return f"a tolerance of {tolerance} cannot be written"
        case ListOf(items) if items.count(OPEN) > 1:
            return "a list with a second `..` cannot be written"
        case Call(attributes=(_, *_), kinds=(_, *_)):
            return "conditions on attributes of a class by kind cannot be written"
        case TupleOfEach(TupleOfEach() | Number() | ListOf()):
            return "tuples in a tuple of any length, or numbers, cannot be written"
        case TupleOfEach(PathFrom()):
            return "paths in a tuple of any length have no text"
        case PathFrom(_, TupleOfEach() | Number() | ListOf() | Repeat() | PathFrom()):
            return "a path from a tuple of any length, a number or a chain has no text"
        case FieldOf(Number() | ListOf()):
            return "numbers have no fields"
        case Either(choices) if len(choices) < 2:
            return "a single alternative cannot be written"
        case _:
            return ""


def _brackets(call: Call) -> str:
    # An operator that does not exist is written too: reading the text says so.
    known = [operators()[op] for op in call.ops if op in operators()]
    types = {name: t for operator in known for name, t in operator.attrs.items()}
    conditions = ", ".join(_expression(w.condition, types) for w in call.attributes)
    return f" [{conditions}]" if conditions else ""


def _where(where: Where) -> str:
    reason = f" else {quoted(where.reason)}" if where.reason else ""
    return f"  where {_expression(where.condition, {})}{reason};"


# Conditions.


def _expression(expression: Expression, types: Mapping[str, str], least: str = "or") -> str:
    """The text of `expression`, in parentheses if its precedence is lower than `least`."""
    text, level = _written(expression, types)
    return text if _LEVELS.index(level) >= _LEVELS.index(least) else f"({text})"


def _written(expression: Expression, types: Mapping[str, str]) -> tuple[str, str]:
    """The text of `expression` and its precedence."""

    def side(part: Expression, least: str) -> str:
        return _expression(part, types, least)

    match expression:
        case conditions.Constant(value):
            return _value(value), "atom"
        case conditions.Attr(name):
            return name, "atom"
        case conditions.Dtype() | conditions.Rank() | conditions.DimAt() | conditions.Shape():
            return question_text(expression), "atom"
        case conditions.Size() | conditions.Bytes() | conditions.Has() | conditions.Uses():
            return question_text(expression), "atom"
        case conditions.ValueOf() | conditions.Min() | conditions.Max() | conditions.Place():
            return question_text(expression), "atom"
        case conditions.AttrOf(of, name):
            return f"{of}.{name}", "atom"
        case conditions.Each(attribute):
            return f"{side(attribute, 'atom')}[*]", "atom"
        case conditions.Item(attribute, index):
            return f"{side(attribute, 'atom')}[{index}]", "atom"
        case conditions.Element(of):
            return of, "atom"
        case conditions.All(condition):
            return f"all({side(condition, 'or')})", "atom"
        case conditions.Range(least, most):
            return f"{_value(least)}..{_value(most)}", "sum"
        case conditions.Holds(predicate, names):
            return f"{predicate.name}({', '.join(names)})", "atom"
        case conditions.Calculate(operator, left, right):
            level, tighter = ("sum", "product") if operator in "+-" else ("product", "atom")
            return f"{side(left, level)} {operator} {side(right, tighter)}", level
        case conditions.Compare(operator, left, right):
            left, right = _dtypes(left, right, types), _dtypes(right, left, types)
            return f"{side(left, 'sum')} {operator} {side(right, 'sum')}", "comparison"
        case conditions.Near(left, right, tolerance):
            if not 0 < tolerance < 1:
                raise ValueError(f"a tolerance of {tolerance} cannot be written")
            within = "" if tolerance == TOLERANCE else f" within {tolerance}"
            return f"{side(left, 'sum')} ~= {side(right, 'sum')}{within}", "comparison"
        case conditions.Within(value, choices):
            choices = _dtypes(choices, value, types)
            return f"{side(value, 'sum')} in {side(choices, 'sum')}", "comparison"
        case conditions.Not(condition):
            return f"not {side(condition, 'not')}", "not"
        case conditions.And(left, right):
            return f"{side(left, 'and')} and {side(right, 'not')}", "and"
        case conditions.Or(left, right):
            return f"{side(left, 'or')} or {side(right, 'and')}", "or"
        case _:
            assert_never(expression)


class _Bare(str):
    """A string that is written without quotes, because it is a dtype."""

    __slots__ = ()


def _dtypes(side: Expression, other: Expression, types: Mapping[str, str]) -> Expression:
    """`side` as a dtype if it is a constant compared with a dtype."""
    match other:
        case conditions.Dtype():
            pass
        case conditions.Attr(name) if types.get(name) == "dtype":
            pass
        case _:
            return side
    match side:
        case conditions.Constant(str() as text):
            return conditions.Constant(_Bare(text))
        case conditions.Constant(tuple() as items):
            bare = (_Bare(item) if isinstance(item, str) else item for item in items)
            return conditions.Constant(tuple(bare))
    return side


def _value(value: Value) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return "none"
        case _Bare() if long_dtype(value):
            return str(value)
        case str():
            return quoted(value)
        case tuple():
            return f"[{', '.join(map(_value, value))}]"
        case int() | float():
            return repr(value)
        case _:
            assert_never(value)


# Targets.


def _target(spec: FusionSpec) -> str:
    target = spec.target
    options = ", ".join(f"{name}: {_value(value)}" for name, value in target.options.items())
    kind = f"{target.kind}({options})" if options else target.kind
    lines = [f"target {target.name} on {kind} {{"]
    if target.compiler is not None:
        lines.append(f"  compiler {quoted(target.compiler)};")
    if target.variants:
        lines.append(f"  variants [{', '.join(target.variants)}];")
    if target.priority:
        lines.append(f"  priority {target.priority};")
    lines.append(f"  rules {rule_text(spec.rule, 2)};")
    limits = " ".join(f"{name} {value}".rstrip() + ";" for name, value in limit_texts(spec.limits))
    if limits:
        lines.append(f"  limits {{ {limits} }}")
    measure = " ".join(f"{name} {value};" for name, value in _measuring(target.measure))
    if measure:
        lines.append(f"  measure {{ {measure} }}")
    if target.tune.trials:
        lines.append(f"  tune {{ trials {target.tune.trials}; }}")
    if spec.coalesce:
        lines.append("  after max_coalesce();")
    if spec.fallback:
        lines.append("  fallback;")
    return "\n".join([*lines, "}"])


def _measuring(measure: Measuring) -> list[tuple[str, str]]:
    """The settings that differ from the defaults."""
    usual = Measuring()
    counts = {"repeats": measure.repeats, "percentile": measure.percentile}
    times = {"budget": measure.budget, "timeout": measure.timeout}
    found = [(name, str(count)) for name, count in counts.items() if count != getattr(usual, name)]
    lengths = ((name, time) for name, time in times.items() if time != getattr(usual, name))
    found += [(name, duration(time)) for name, time in lengths if time is not None]
    if measure.runs != usual.runs:
        found.append(("runs", measure.runs))
    if measure.noise_margin != usual.noise_margin:
        found.append(("noise_margin", percentage(measure.noise_margin)))
    return found


def _placement(target: str, placement: Placement) -> str:
    match placement.selector:
        case ByName(glob):
            selector = f"name({quoted(glob)})"
        case ByOperator(ops):
            selector = f"op({', '.join(ops)})"
        case _:
            assert_never(placement.selector)
    where = "to" if placement.action == "pin" else "on"
    reason = f" because {quoted(placement.because)}" if placement.because else ""
    return f"{placement.action} {selector} {where} {target}{reason};"
