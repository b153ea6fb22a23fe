"""Report patterns and rules that may find so much on a model that they stop before the end."""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import prod
from typing import assert_never

from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.reasoning.patterns.always import operators_at
from collage_dsl.rules import CombineByPrimitives, JoinAnything, Pattern
from collage_dsl.rules.pattern import (
    Anything,
    Binding,
    Call,
    Either,
    FieldOf,
    Flat,
    ListOf,
    Number,
    Operand,
    PathFrom,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
    TupleOfEach,
)
from collage_dsl.source import Span

MOST_SETS = 10_000


def check_pattern_growth(pattern: Pattern, span: Span, findings: Findings) -> None:
    if _Sets().of(pattern) > MOST_SETS:
        message = f"at one node, `{pattern.name}` may match more than {MOST_SETS} sets of operators"
        findings.warning("W0334", span, message, "write several patterns with fewer optional parts")


def check_rule_growth(rule: CombineByPrimitives, span: Span, findings: Findings) -> None:
    bounds = rule.max_depth, rule.max_nodes, rule.max_splits
    if JoinAnything() in rule.using and all(bound is None for bound in bounds):
        message = "this has no bound, so it proposes every connected part of a graph"
        findings.warning("W0424", span, message, "add `max_nodes`, `max_depth` or `max_splits`")


class _Sets:
    """
    Estimates how many different sets of operators a pattern matches at one node, up to one more
    than `MOST_SETS`.

    Where a chain of optional calls ends says which of them are there, as far as the set of
    operators is concerned. So the numbers of a chain are added, and those of branches multiplied.
    """

    def __init__(self) -> None:
        self.patterns: dict[int, int] = {}

    def of(self, pattern: Pattern) -> int:
        if id(pattern) not in self.patterns:
            values = {binding.name: binding for binding in pattern.bindings}
            found = _capped(prod(self.name(result, values) for result in pattern.results))
            self.patterns[id(pattern)] = found
        return self.patterns[id(pattern)]

    def name(self, name: str, left: dict[str, Binding]) -> int:
        """Each name counts where it is used first."""
        binding = left.pop(name, None)
        return 1 if binding is None else self.operand(binding.value, left)

    def operand(self, operand: Operand, left: dict[str, Binding]) -> int:
        match operand:
            case Reference(name):
                return self.name(name, left)
            case Anything() | Number() | ListOf():
                return 1
            case Call() | PatternCall():
                return self.call(operand, left)
            case TupleOf(fields) | Flat(_, fields):
                return _capped(prod(self.all(fields, left)))
            case PathFrom(_, origin, least, most):
                return _capped(self.operand(origin, left) * (most - least + 1))
            case TupleOfEach(field, _, most):
                return _capped(self.operand(field, left) ** min(most, 20))
            case FieldOf(of):
                return self.operand(of, left)
            case Repeat(call, least, most):
                return self.repeat(call, most - least, most, left)
            case Either(choices):
                roots = [operators_at(choice, left) for choice in choices]
                return _capped(_at_one_node(roots, self.all(choices, left)))
            case _:
                assert_never(operand)

    def all(self, operands: Iterable[Operand], left: dict[str, Binding]) -> Sequence[int]:
        return [self.operand(operand, left) for operand in operands]

    def call(self, call: Call | PatternCall, left: dict[str, Binding]) -> int:
        first, *rest = self.all(call.operands, left) or [1]
        own, others = self.own(call), prod(rest)
        if others == 1:
            return _capped(own + first - 1 + call.optional)
        return _capped(own * first * others + first * call.optional)

    def own(self, call: Call | PatternCall) -> int:
        return self.of(call.pattern) if isinstance(call, PatternCall) else 1

    def repeat(
        self, call: Call | PatternCall, more: int, most: int, left: dict[str, Binding]
    ) -> int:
        first, *others = self.all(call.operands, left) or [1]
        side = _capped(prod(others)) * self.own(call)
        return _capped(first + more if side == 1 else first * side ** min(most, 20))


def _at_one_node(roots: Iterable[Sequence[str]], counts: Iterable[int]) -> int:
    """
    The sum of the `counts` of alternatives that can match at the same node: of those with
    different operators there, at most one does.
    """
    unknown, known = 0, Counter[str]()
    for ops, count in zip(roots, counts, strict=True):
        known.update(dict.fromkeys(ops, count))
        unknown += 0 if ops else count
    return unknown + max(known.values(), default=0)


def _capped(number: int) -> int:
    return min(number, MOST_SETS + 1)
