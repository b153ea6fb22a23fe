"""Rules, and targets with rules."""

from collections.abc import Mapping, Sequence

from collage_dsl.builder.terms import checked_types
from collage_dsl.graph import Kind, Measuring, Option, Toolchain, Tuning
from collage_dsl.language.checked import checked
from collage_dsl.language.write.linking import with_distinct_names
from collage_dsl.rules import (
    TVM_DEFAULT,
    CombineByPrimitives,
    Constants,
    DFPattern,
    FusionRule,
    FusionSpec,
    Horizontal,
    Host,
    InjectiveBranches,
    JoinAnything,
    KindPair,
    Limits,
    MaxCoalesce,
    OnlyValid,
    OnlyVariants,
    OpCallByKind,
    OpPredicate,
    Pattern,
    Primitive,
    Tagged,
    TupleArgs,
    TupleProjections,
    Union,
    Vertical,
)
from collage_dsl.rules.placement import ByName, ByOperator, Placement, Selector
from collage_dsl.rules.predicate import BACKEND, Predicate
from collage_dsl.rules.regions import Preference
from collage_dsl.rules.vertical import USUAL_DEPTH


@checked_types
def op_call_by_kind(*kinds: Kind) -> FusionRule:
    return OpCallByKind(kinds) if kinds else OpCallByKind()


def rule_of(given: object) -> FusionRule:
    """`given`, which is a rule. Raises TypeError if it is something else."""
    if isinstance(given, FusionRule):
        return given
    what = f"a {type(given).__name__}"
    if isinstance(given, Pattern):
        what = f"the pattern `{given.name}`; write dfpattern(…) around it"
    raise TypeError(f"a rule is needed here, not {what}")


@checked_types
def dfpattern(pattern: Pattern) -> FusionRule:
    return DFPattern(pattern)


@checked_types
def op_predicate(predicate: Predicate | str, *, ops: tuple[str, ...] = ()) -> FusionRule:
    """`predicate` has one parameter; a string names a backend, which is asked instead."""
    if isinstance(predicate, str):
        predicate = Predicate(f"{predicate}.supports", ("call",), BACKEND + predicate)
    return OpPredicate(predicate, ops)


def host() -> FusionRule:
    return Host()


@checked_types
def composite(label: str, rule: FusionRule) -> FusionRule:
    return Tagged(label, rule_of(rule))


@checked_types
def union(*rules: FusionRule) -> FusionRule:
    if not rules:
        raise ValueError("`union` needs at least one rule")
    return Union(tuple(map(rule_of, rules)))


@checked_types
def primitive(rule: FusionRule) -> FusionRule:
    """`rule` unchanged: every target makes one kernel of each candidate anyway."""
    return rule_of(rule)


@checked_types
def max_coalesce(rule: FusionRule, *, prefer: Preference = "largest") -> FusionRule:
    return MaxCoalesce(rule_of(rule), prefer)


JOIN_ANYTHING = JoinAnything()
INJECTIVE_BRANCHES = InjectiveBranches()
TUPLE_ARGS = TupleArgs()
TUPLE_PROJECTIONS = TupleProjections()
CONSTANTS = Constants()


@checked_types
def kind(upstream: Kind, downstream: Kind) -> Primitive:
    """`kind(anchor -> broadcast)`"""
    return KindPair(upstream, downstream)


@checked_types
def combine_by_primitives(
    rule: FusionRule,
    *,
    using: tuple[Primitive, ...] = TVM_DEFAULT,
    max_depth: int | None = None,
    max_nodes: int | None = None,
    max_splits: int | None = None,
) -> FusionRule:
    return CombineByPrimitives(rule_of(rule), using, max_depth, max_nodes, max_splits)


@checked_types
def horizontal(rule: FusionRule, *, max: int = 3) -> FusionRule:  # noqa: A002 (as in files)
    return Horizontal(rule_of(rule), max)


@checked_types
def vertical(
    rule: FusionRule,
    *,
    prologue: Kind | None = Kind.BROADCAST,
    epilogue: Kind | None = Kind.BROADCAST,
    max_depth: int = USUAL_DEPTH,
) -> FusionRule:
    return Vertical(rule_of(rule), prologue, epilogue, max_depth)


@checked_types
def only_valid(rule: FusionRule, limits: Limits) -> FusionRule:
    return OnlyValid(rule_of(rule), limits)


@checked_types
def only_variants(rule: FusionRule, variants: Sequence[str]) -> FusionRule:
    return OnlyVariants(rule_of(rule), tuple(variants))


@checked_types
def name(glob: str) -> Selector:
    """Selects the operator calls whose names match a glob: `name("/head/*")`."""
    return ByName(glob)


@checked_types
def op(*operators: str) -> Selector:
    """Selects the calls of some operators: `op("nn.softmax", "tanh")`."""
    return ByOperator(operators)


@checked_types
def pin(selector: Selector, *, because: str = "") -> Placement:
    """A placement: only the target that it is given to may run the selected calls."""
    return Placement("pin", selector, because)


@checked_types
def forbid(selector: Selector, *, because: str = "") -> Placement:
    """A placement: the target that it is given to may not run the selected calls."""
    return Placement("forbid", selector, because)


@checked_types
def target(
    name: str,
    kind: str,
    *,
    rules: FusionRule,
    compiler: str | None = None,
    variants: Sequence[str] = (),
    options: Mapping[str, Option | list[str]] | None = None,
    priority: int = 0,
    limits: Limits | None = None,
    coalesce: bool = False,
    fallback: bool = False,
    measure: Measuring | None = None,
    tune: Tuning | None = None,
    placements: Sequence[Placement] = (),
) -> FusionSpec:
    """
    A spec, with the checks of one in a file. `coalesce` is `after max_coalesce();`. Any
    of the `variants` may compute a kernel; any at all if there are none. If two
    different patterns or predicates share a name, the later one becomes `name_2`.

    Raises RuleError with everything that is wrong, shown in the text of the spec, ValueError
    for what no text can express, and TypeError for what is no rule.
    """
    said = {n: tuple(v) if isinstance(v, list) else v for n, v in (options or {}).items()}
    toolchain = Toolchain(
        name,
        kind,
        compiler,
        said,
        priority,
        measure or Measuring(),
        tuple(variants),
        tune or Tuning(),
    )
    made = rule_of(rules)
    spec = FusionSpec(toolchain, made, limits or Limits(), coalesce, fallback, tuple(placements))
    return checked([with_distinct_names({name: spec})[name]], "<builder>")[name]
