"""Check that the rule of a `fallback` target proposes every operator call as a kernel alone."""

from dataclasses import dataclass, replace

from collage_dsl.diagnostics import Note
from collage_dsl.graph import Kind
from collage_dsl.graph.operators import operators, relax_operators
from collage_dsl.graph.variants import DIRECT
from collage_dsl.language.messages.findings import Findings, count
from collage_dsl.rules import (
    CombineByPrimitives,
    DFPattern,
    FusionRule,
    Horizontal,
    Host,
    Limits,
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
from collage_dsl.rules.pattern import Anything, Call, Operand, Reference
from collage_dsl.source import Span

_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Calls:
    """Operator calls: those of `kinds`, those of `ops`, or those of any operator."""

    kinds: frozenset[Kind] = frozenset()
    ops: frozenset[str] = frozenset()
    everything: bool = False

    def __or__(self, other: "Calls") -> "Calls":
        kinds, ops = self.kinds | other.kinds, self.ops | other.ops
        return Calls(kinds, ops, self.everything or other.everything)

    def __contains__(self, op: str) -> bool:
        """Whether some call of `op` is one of them."""
        return self.everything or op in self.ops or not self.kinds.isdisjoint(operators()[op].kinds)


def check_fallback(
    target: str, rule: FusionRule, limits: Limits, rules: Span, fallback: Span, findings: Findings
) -> None:
    """
    Report a `fallback` target whose rule and limits leave out an operator.

    A model that uses such an operator would have no plan.
    """
    found = covered(rule, refuses_regions=_refuses_regions(limits))
    left = left_out(found)
    if not left:
        return
    names = ", ".join(f"`{op}`" for op in left[:_SHOWN])
    more = ", …" if len(left) > _SHOWN else ""
    kinds = sorted({kind for op in left for kind in relax_operators()[op].kinds} - found.kinds)
    notes = (
        Note("promised here", fallback),
        Note(f"left out: {count(len(left), 'operator')}, {names}{more}"),
    )
    message = f"fallback target `{target}` does not cover every operator"
    hint = f"add `op_call_by_kind({', '.join(map(str, kinds))})` to a union"
    findings.warning("W0530", rules, message, hint, notes)


def left_out(found: Calls) -> tuple[str, ...]:
    """The names of operators with calls that are not covered, sorted."""
    if found.everything:
        return ()
    return tuple(
        op
        for op in sorted(relax_operators())
        if op not in found.ops and not relax_operators()[op].kinds <= found.kinds
    )


def covered(rule: FusionRule, *, refuses_regions: bool) -> Calls:
    """
    The calls that `rule` proposes alone, whatever their operands are.

    Limits never refuse a single call, unless they prune. Rules that combine also propose their
    parts. `max_coalesce` proposes only its regions: if limits may refuse a region, its calls are
    left out. Variants other than `direct` may be unable to compute a call.
    """
    match rule:
        case OnlyValid(_, limits) if _prunes_single(limits):
            return Calls()
        case OnlyValid(inner, limits):
            refuses = refuses_regions or _refuses_regions(limits)
            return covered(inner, refuses_regions=refuses)
        case MaxCoalesce(inner):
            return Calls() if refuses_regions else covered(inner, refuses_regions=False)
        case OpCallByKind(kinds):
            return Calls(frozenset(kinds))
        case DFPattern(pattern):
            return Calls(ops=_only_calls(pattern))
        case OpPredicate(_, ops) if ops:
            return Calls(ops=frozenset(ops))
        case Union(rules):
            found = Calls()
            for one in rules:
                found |= covered(one, refuses_regions=refuses_regions)
            return found
        case Tagged(_, inner) | CombineByPrimitives(inner) | Horizontal(inner) | Vertical(inner):
            return covered(inner, refuses_regions=refuses_regions)
        case OnlyVariants(inner, variants) if DIRECT in variants:
            return covered(inner, refuses_regions=refuses_regions)
        case Host() | OnlyVariants():
            return Calls()
        case _:  # a backend or a library may propose anything
            return Calls(everything=True)


def _refuses_regions(limits: Limits) -> bool:
    """Whether the limits may refuse a region of the largest possible size."""
    return replace(limits, max_candidates=None) != Limits(max_exits=None, taps=True)


def _prunes_single(limits: Limits) -> bool:
    """Whether a single call may lose to an overlapping candidate, or be too small."""
    overlap = limits.largest_first or limits.max_regions is not None
    return overlap or (limits.min_nodes or 1) > 1


def _only_calls(pattern: Pattern) -> frozenset[str]:
    """The operators whose every call the pattern matches."""
    values = pattern.values
    operand: Operand = Reference(pattern.result)
    while True:
        match operand:
            case Reference(name) if name in values:
                operand = values[name]
            case Call(optional=True, operands=(first, *_)):
                operand = first
            case Call() if not operand.attributes and not pattern.conditions:
                return _every_call(pattern, operand)
            case _:
                return frozenset()


def _every_call(pattern: Pattern, call: Call) -> frozenset[str]:
    names = [operand.name for operand in call.operands if isinstance(operand, Reference)]
    parameters = [pattern.parameter(name) for name in names]
    free = all(parameter is not None and not parameter.is_restricted for parameter in parameters)
    anything = all(isinstance(operand, Reference | Anything) for operand in call.operands)
    if not free or not anything or len(set(names)) < len(names):
        return frozenset()
    return frozenset(op for op in call.ops if not operators()[op].optional)
