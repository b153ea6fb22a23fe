"""Rename patterns and predicates from several files so that one text can hold them all."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from collage_dsl.graph import Kind
from collage_dsl.language.resolve.predicates import with_predicates
from collage_dsl.language.write.printer import patterns_of, predicates_in
from collage_dsl.rules import (
    CombineByPrimitives,
    DFPattern,
    FusionRule,
    FusionSpec,
    Horizontal,
    Host,
    MaxCoalesce,
    OnlyValid,
    OnlyVariants,
    OpCallByKind,
    OpPredicate,
    Pattern,
    Tagged,
    Union,
    Vertical,
)
from collage_dsl.rules.condition import Where
from collage_dsl.rules.parts import with_inner, written_operands
from collage_dsl.rules.pattern import (
    Call,
    Operand,
    PathFrom,
    PatternCall,
)
from collage_dsl.rules.predicate import Predicate


def with_distinct_names(specs: Mapping[str, FusionSpec]) -> dict[str, FusionSpec]:
    """
    The same specs; if two different patterns or predicates share a name, the later is `name_2`.

    Two files may define the same name differently, but one text may define it only once. So is a
    pattern with the name of a kind, such as `reduce`, if a pattern uses that kind as a class.
    """
    names = _Names()
    names.taken |= {str(kind) for spec in specs.values() for kind in _kinds(spec.rule)}
    for spec in specs.values():
        for predicate in predicates_in(spec.rule):
            names.add(predicate)
        for pattern in patterns_of(spec.rule):
            names.add(pattern)
    if not names.clash:
        return dict(specs)
    renamed = _Renamed(names.of.__getitem__)
    return {n: replace(spec, rule=renamed.in_rule(spec.rule)) for n, spec in specs.items()}


def pattern_without_names(pattern: Pattern) -> Pattern:
    """`pattern` without its name and those of what it calls: equal if both match the same way."""
    return _NAMELESS.in_pattern(pattern)


def spec_without_names(spec: FusionSpec) -> FusionSpec:
    """`spec` without the names of its patterns and predicates."""
    return replace(spec, rule=_NAMELESS.in_rule(spec.rule))


def _kinds(rule: FusionRule) -> Iterator[Kind]:
    """The kinds that the patterns of `rule` use as classes of operators."""
    for pattern in patterns_of(rule):
        for parameter in pattern.parameters:
            yield from parameter.excluded.kinds if parameter.excluded else ()
        for part in written_operands(pattern):
            yield from part.kinds if isinstance(part, Call | PathFrom) else ()


class _Names:
    """A name for each pattern and predicate, used only once."""

    def __init__(self) -> None:
        self.of: dict[Pattern | Predicate, str] = {}
        self.taken: set[str] = set()
        self.clash = False

    def add(self, named: Pattern | Predicate) -> None:
        if named in self.of:
            return
        name, number = named.name, 1
        while name in self.taken:
            number += 1
            name = f"{named.name}_{number}"
        self.clash |= number > 1
        self.taken.add(name)
        self.of[named] = name


@dataclass(frozen=True, slots=True)
class _Renamed:
    """Gives each pattern and predicate the name that `name_of` says."""

    name_of: Callable[[Pattern | Predicate], str]

    def in_rule(self, rule: FusionRule) -> FusionRule:
        match rule:
            case DFPattern(pattern):
                return DFPattern(self.in_pattern(pattern))
            case Union(rules):
                return Union(tuple(map(self.in_rule, rules)))
            case Tagged() | CombineByPrimitives() | OnlyValid() | OnlyVariants() | MaxCoalesce():
                return replace(rule, rule=self.in_rule(rule.rule))
            case Horizontal() | Vertical():
                return replace(rule, rule=self.in_rule(rule.rule))
            case OpPredicate(predicate) if not predicate.backend:
                return replace(rule, predicate=self.predicate(predicate))
            case OpCallByKind() | OpPredicate() | Host():
                return rule
            case _:
                assert_never(rule)

    def in_pattern(self, pattern: Pattern) -> Pattern:
        bindings = tuple(replace(b, value=self.in_operand(b.value)) for b in pattern.bindings)
        wheres = tuple(map(self.in_where, pattern.conditions))
        return replace(pattern, name=self.name_of(pattern), bindings=bindings, conditions=wheres)

    def in_where(self, where: Where) -> Where:
        return replace(where, condition=with_predicates(where.condition, self.predicate))

    def predicate(self, predicate: Predicate) -> Predicate:
        return replace(predicate, name=self.name_of(predicate))

    def in_operand(self, operand: Operand) -> Operand:
        inside = with_inner(operand, self.in_operand)
        match inside:
            case PatternCall(pattern):
                return replace(inside, pattern=self.in_pattern(pattern))
            case Call(attributes=attributes):
                return replace(inside, attributes=tuple(map(self.in_where, attributes)))
            case _:
                return inside


_NAMELESS = _Renamed(lambda _: "")
