"""
Build fusion specs in Python: the same trees as from spec files, with the same checks.

    from collage_dsl.builder import PatternBuilder, dfpattern, one, target

    block = PatternBuilder("conv_relu")
    x, w = block.value("x"), block.constant("w")
    k = block.bind("k", one("nn.conv2d")(x, w, groups=1))
    block.where(w.dim(0) % 16 == 0, "the blocked layout needs channels divisible by 16")
    conv_relu = block.yields(block.bind("y", one("nn.relu")(k)))
    spec = target("acme", "llvm", rules=dfpattern(conv_relu), compiler="acme")

Equations of a pattern are about values, conditions consist of terms. `==`, `<`, `%`, `&`, `|` and
`~` of terms are terms.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from collage_dsl.argument_types import with_checked_types
from collage_dsl.engine.tables import registered_tables
from collage_dsl.graph import Kind, Measuring, Option, Toolchain, Tuning
from collage_dsl.language.checked import checked
from collage_dsl.language.loading import definitions
from collage_dsl.language.messages.findings import count
from collage_dsl.language.reasoning.pattern_shape import always_there
from collage_dsl.language.resolve import pattern_tables
from collage_dsl.language.resolve.dimensions import Dimensions
from collage_dsl.language.resolve.rule_names import CheckedRule
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
from collage_dsl.rules import condition as conditions
from collage_dsl.rules.condition import Arithmetic, Comparison, Expression, Where
from collage_dsl.rules.condition import Value as Plain
from collage_dsl.rules.pattern import (
    ANY,
    OPEN,
    Anything,
    Binding,
    Call,
    Either,
    Excluded,
    FieldOf,
    Flat,
    ListOf,
    Number,
    Operand,
    Parameter,
    PathFrom,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
    TupleOfEach,
)
from collage_dsl.rules.placement import ByName, ByOperator, Placement, Selector
from collage_dsl.rules.predicate import BACKEND, Predicate
from collage_dsl.rules.regions import Preference
from collage_dsl.rules.vertical import USUAL_DEPTH

_checked = with_checked_types("rule", "rules", "attributes")
"""Rules and values of attributes are checked where they are used."""


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """Part of a condition."""

    expression: Expression

    def _compared(self, operator: Comparison, other: Any) -> "Term":
        return Term(conditions.Compare(operator, self.expression, _expression(other)))

    def _calculated(self, operator: Arithmetic, other: Any) -> "Term":
        return Term(conditions.Calculate(operator, self.expression, _expression(other)))

    def __eq__(self, other: object) -> "Term":  # type: ignore[override]
        return self._compared("==", other)

    def __ne__(self, other: object) -> "Term":  # type: ignore[override]
        return self._compared("!=", other)

    __hash__ = None  # type: ignore[assignment]

    def __lt__(self, other: Any) -> "Term":
        return self._compared("<", other)

    def __le__(self, other: Any) -> "Term":
        return self._compared("<=", other)

    def __gt__(self, other: Any) -> "Term":
        return self._compared(">", other)

    def __ge__(self, other: Any) -> "Term":
        return self._compared(">=", other)

    def __add__(self, other: Any) -> "Term":
        return self._calculated("+", other)

    def __sub__(self, other: Any) -> "Term":
        return self._calculated("-", other)

    def __mul__(self, other: Any) -> "Term":
        return self._calculated("*", other)

    def __floordiv__(self, other: Any) -> "Term":
        return self._calculated("/", other)

    def __mod__(self, other: Any) -> "Term":
        return self._calculated("%", other)

    @_checked
    def __and__(self, other: "Term") -> "Term":
        return Term(conditions.And(self.expression, other.expression))

    @_checked
    def __or__(self, other: "Term") -> "Term":
        return Term(conditions.Or(self.expression, other.expression))

    def __invert__(self) -> "Term":
        return Term(conditions.Not(self.expression))

    def __bool__(self) -> bool:
        raise TypeError("a term is true or false when it is matched: join terms with &, | and ~")

    def __truediv__(self, other: Any) -> "Term":
        return self._calculated("/", other)

    @_checked
    def __getitem__(self, index: int) -> "Term":
        """One element of an attribute: `attribute("padding")[0]`."""
        return Term(conditions.Item(_attribute(self), index))

    __iter__ = None

    @property
    def each(self) -> "Term":
        """Every element of an attribute."""
        return Term(conditions.Each(_attribute(self)))

    @_checked
    def near(self, other: Any, *, within: float = conditions.TOLERANCE) -> "Term":
        """`a ~= b`, `a ~= b within 1e-3`"""
        return Term(conditions.Near(self.expression, _expression(other), within))

    def one_of(self, *choices: Plain) -> "Term":
        """`value in [a, b]`"""
        return Term(conditions.Within(self.expression, _expression(choices)))

    @_checked
    def between(self, least: float, most: float) -> "Term":
        """`value in least..most`, both ends included."""
        return Term(conditions.Within(self.expression, conditions.Range(least, most)))


@_checked
def attribute(name: str) -> Term:
    """An attribute of a call, for use in the `where` of that call."""
    return Term(conditions.Attr(name))


@_checked
def all_elements(term: Term) -> Term:
    """`all(w >= 0)`: `all_elements(w.element >= 0)`."""
    return Term(conditions.All(term.expression))


@_checked
def each(name: str) -> Term:
    """`name[*]`: every element of an attribute."""
    return Term(conditions.Each(conditions.Attr(name)))


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a pattern. Conditions can only use one that has a name."""

    operand: Operand

    @property
    def name(self) -> str:
        if not isinstance(self.operand, Reference):
            raise ValueError("a condition asks about a value with a name: `bind` it first")
        return self.operand.name

    @_checked
    def __getitem__(self, index: int) -> "Value":
        """A field of a tuple."""
        return Value(FieldOf(self.operand, index))

    @property
    def dtype(self) -> Term:
        return Term(conditions.Dtype(self.name))

    @property
    def rank(self) -> Term:
        return Term(conditions.Rank(self.name))

    @property
    def shape(self) -> Term:
        return Term(conditions.Shape(self.name))

    @property
    def size(self) -> Term:
        """The number of elements."""
        return Term(conditions.Size(self.name))

    @property
    def bytes(self) -> Term:
        return Term(conditions.Bytes(self.name))

    @property
    def uses(self) -> Term:
        return Term(conditions.Uses(self.name))

    @property
    def present(self) -> Term:
        """`has(value)`, for an optional value."""
        return Term(conditions.Has(self.name))

    @property
    def value(self) -> Term:
        """`value(c)`: the number that all elements of a constant are."""
        return Term(conditions.ValueOf(self.name))

    @property
    def min(self) -> Term:
        """`min(c)`: the least element of a constant."""
        return Term(conditions.Min(self.name))

    @property
    def max(self) -> Term:
        """`max(c)`: the greatest element of a constant."""
        return Term(conditions.Max(self.name))

    @property
    def element(self) -> Term:
        """An element of a constant, inside `all_elements`."""
        return Term(conditions.Element(self.name))

    @_checked
    def place(self, axis: int) -> Term:
        """Where an element of a constant is along an axis, inside `all_elements`."""
        return Term(conditions.Place(self.name, axis))

    @_checked
    def attribute(self, name: str) -> Term:
        """`k.strides`: an attribute of the call that is this value."""
        return Term(conditions.AttrOf(self.name, name))

    @_checked
    def dim(self, axis: int) -> Term:
        return Term(conditions.DimAt(self.name, axis))


ANYTHING = Value(Anything())
"""`_`: any value; it is not part of the match."""


@_checked
def number(value: float, *, within: float = 0.0) -> Value:
    """A constant all of whose elements are `value`, up to a relative tolerance."""
    return Value(Number(value, within))


@_checked
def approximately(value: float) -> Value:
    """`~0.7071`, with the default tolerance."""
    return Value(Number(value, conditions.TOLERANCE))


@_checked
def list_of(*items: int | str) -> Value:
    """`[1, _, ..]`: a list that the program writes. `PatternBuilder.list_of` names its items."""
    found = tuple(map(_list_item, items))
    return Value(ListOf(found))


def _list_item(item: int | str) -> int | Literal["_", ".."]:
    if isinstance(item, str) and item not in (ANY, OPEN):
        raise ValueError(f"`{item}` is a name: write `list_of` of the pattern's builder")
    return item if isinstance(item, int) else ANY if item == ANY else OPEN


@_checked
def extern_predicate(name: str, *parameters: str, source: str) -> Predicate:
    """`extern predicate fits(x, w) from "acme.predicates:fits";`"""
    return Predicate(name, parameters, source)


@_checked
def holds(predicate: Predicate, *values: Value) -> Term:
    """A condition that calls host code with values: `fits(x, w)`."""
    return Term(conditions.Holds(predicate, tuple(value.name for value in values)))


@dataclass(frozen=True, slots=True)
class Operators:
    """Alternative operators and kinds, to be called: `one("nn.relu", Kind.BROADCAST)(x, b)`."""

    names: tuple[str | Kind, ...]

    @_checked
    def __call__(
        self,
        *operands: Value,
        where: tuple[Term, ...] = (),
        optional: bool = False,
        ordered: bool = False,
        shared: bool = False,
        flat: bool = False,
        **attributes: Plain,
    ) -> Value:
        """Keywords give the required values of attributes; `where` has other conditions."""
        equal = (attribute(name) == value for name, value in attributes.items())
        asked = tuple(Where(term.expression) for term in (*equal, *where))
        inner = tuple(operand.operand for operand in operands)
        if flat:
            if len(self.names) != 1 or self.kinds or asked or optional or ordered:
                raise ValueError("a flat call is of one operator, and has no conditions")
            return Value(Flat(self.ops[0], inner, shared))
        return Value(Call(self.ops, inner, asked, optional, ordered, shared, self.kinds))

    @property
    def ops(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if not isinstance(name, Kind))

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(name for name in self.names if isinstance(name, Kind))


@_checked
def one(*operators: str | Kind) -> Operators:
    return Operators(operators)


@_checked
def match(pattern: Pattern, *operands: Value, optional: bool = False) -> Value:
    """A call of another pattern: the value that it matches."""
    if len(operands) != len(pattern.parameters):
        said = f"`{pattern.name}` takes {count(len(pattern.parameters), 'operand')}"
        raise ValueError(f"{said}, not {len(operands)}")
    return Value(PatternCall(pattern, tuple(o.operand for o in operands), optional))


@_checked
def either(*choices: Value) -> Value:
    if not choices:
        raise ValueError("`either` needs at least one value")
    return Value(Either(tuple(choice.operand for choice in choices)))


@_checked
def tuple_of(*fields: Value) -> Value:
    return Value(TupleOf(tuple(value.operand for value in fields)))


@_checked
def tuple_of_each(least: int, most: int, field: Value) -> Value:
    """`each[2..8] act(_)`: a tuple of any length within bounds."""
    return Value(TupleOfEach(field.operand, least, most))


@_checked
def path(least: int, most: int, operators: Operators, origin: Value) -> Value:
    """`path[1..6] elementwise from k`: a value computed from `origin` by these calls alone."""
    return Value(PathFrom(operators.ops, origin.operand, least, most, operators.kinds))


@_checked
def repeat(least: int, most: int, call: Value) -> Value:
    if not isinstance(call.operand, Call | PatternCall):
        raise ValueError("only the call of an operator or of a pattern can be repeated")
    return Value(Repeat(call.operand, least, most))


def _is_plain(item: int | str) -> bool:
    """Whether an item of a list is not a name."""
    return isinstance(item, int) or item in (ANY, OPEN)


Dims = Sequence[str | int]
"""
Dimensions: names, numbers, `_` for any size, and `..` for any number of them: `("..", 16, "_")`.
"""


@dataclass(slots=True)
class PatternBuilder:
    """Collects the parameters, equations and conditions of a pattern, in order."""

    name: str
    parameters: list[Parameter] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    conditions: list[Where] = field(default_factory=list)
    dimensions: Dimensions = field(default_factory=Dimensions)
    demands: list[Where] = field(default_factory=list)
    """The conditions from dimensions of parameters; they come before the other conditions."""
    main: str = ""
    """The name of the anchor operator."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError("`name` of `PatternBuilder` must be a string")

    @_checked
    def value(
        self,
        name: str,
        *,
        optional: bool = False,
        dims: Dims | None = None,
        excluded: Sequence[str | Kind] = (),
    ) -> Value:
        """
        A parameter; `dims` names its dimensions: `("m", "k")`, `("_", 16)`. It is not the result
        of an operator or of a kind in `excluded`, nor a constant if that has `"const"`.
        """
        given = Operators(tuple(each for each in excluded if each != "const"))
        sources = Excluded(given.ops, "const" in excluded, given.kinds) if excluded else None
        return self._parameter(Parameter(name, optional=optional, excluded=sources), dims)

    @_checked
    def constant(self, name: str, *, optional: bool = False, dims: Dims | None = None) -> Value:
        """A parameter that is a constant, bound inside the kernel."""
        return self._parameter(Parameter(name, constant=True, optional=optional), dims)

    def _parameter(self, parameter: Parameter, dims: Dims | None) -> Value:
        self.parameters.append(parameter)
        if dims is not None:
            self.demands += [where for _, where in self.dimensions.demands(parameter, dims)]
        return Value(Reference(parameter.name))

    @_checked
    def list_of(self, name: str, *items: int | str) -> Value:
        """
        Add the equation `name = [n, _, 64]`: a list whose items are numbers, names, `"_"` and
        `".."`. A name is the same number everywhere, also in `dims`.
        """
        self.dimensions.note_list(name, items)
        return self.bind(name, list_of(*(item if _is_plain(item) else ANY for item in items)))

    @_checked
    def dim(self, name: str) -> Term:
        """A dimension that a parameter or an item of a list has named."""
        place = self.dimensions.place(name)
        if place is None:
            raise ValueError(f"no parameter or list has a dimension `{name}`")
        return Term(place)

    @_checked
    def bind(self, name: str, value: Value) -> Value:
        """Add the equation `name = value`."""
        self.bindings.append(Binding(name, value.operand))
        return Value(Reference(name))

    @_checked
    def where(self, term: Term, reason: str = "") -> None:
        self.conditions.append(Where(term.expression, reason))

    @_checked
    def anchor(self, value: Value) -> None:
        """`anchor k;`: the main operator."""
        self.main = value.name

    @_checked
    def yields(self, result: Value, *others: Value, taps: bool = False) -> Pattern:
        """The pattern, with these results."""
        names = (result.name, *(other.name for other in others))
        known = {each.name for each in self.parameters} | {each.name for each in self.bindings}
        for name in names:
            if name not in known:
                raise ValueError(f"`yields` of `{self.name}`: the pattern does not define `{name}`")
        always = always_there(tuple(self.parameters), tuple(self.bindings), names)
        demands = (*self.demands, *self.dimensions.demands_of_lists(always))
        return Pattern(
            self.name,
            tuple(self.parameters),
            tuple(self.bindings),
            result.name,
            (*demands, *self.conditions),
            tuple(other.name for other in others),
            taps,
            self.main,
        )


# Definitions from files and pattern tables.

Definition = Pattern | Operators | Predicate | FusionRule
"""What a name in a file stands for; a class of operators can be called."""


@_checked
def imported(file: str | Path, *, search: Sequence[str | Path] = ()) -> Mapping[str, Definition]:
    """
    The definitions of a spec file by name: `imported("std/activations.collage")["swish"]`.

    If there is no such file, it is searched like an import, in the folders of `search` and among
    the shipped specs. Raises RuleError if it is not found or has errors. Rules with parameters
    are left out: in Python, write a function instead.
    """
    found = definitions(file, search, tables=registered_tables()).items()
    return {name: _defined(definition) for name, definition in found}


@_checked
def pattern_table(name: str) -> Mapping[str, Definition]:
    """
    The patterns of one of TVM's tables, or of one that is registered in this process, by name, and
    under `all` the rule of all of them.
    """
    shipped = name in pattern_tables.table_names()
    try:
        table = pattern_tables.table(name) if shipped else registered_tables()(name)
    except pattern_tables.NoTableError as problem:
        raise ValueError(f"there is no pattern table `{name}`: {problem}") from None
    return {**table.patterns, pattern_tables.ALL: table.all}


# Rules and targets.


@_checked
def op_call_by_kind(*kinds: Kind) -> FusionRule:
    return OpCallByKind(kinds) if kinds else OpCallByKind()


def _rule(given: object) -> FusionRule:
    """`given`, which is a rule. Raises TypeError if it is something else."""
    if isinstance(given, FusionRule):
        return given
    what = f"a {type(given).__name__}"
    if isinstance(given, Pattern):
        what = f"the pattern `{given.name}`; write dfpattern(…) around it"
    raise TypeError(f"a rule is needed here, not {what}")


@_checked
def dfpattern(pattern: Pattern) -> FusionRule:
    return DFPattern(pattern)


@_checked
def op_predicate(predicate: Predicate | str, *, ops: tuple[str, ...] = ()) -> FusionRule:
    """`predicate` has one parameter; a string names a backend, which is asked instead."""
    if isinstance(predicate, str):
        predicate = Predicate(f"{predicate}.supports", ("call",), BACKEND + predicate)
    return OpPredicate(predicate, ops)


def host() -> FusionRule:
    return Host()


@_checked
def composite(label: str, rule: FusionRule) -> FusionRule:
    return Tagged(label, _rule(rule))


@_checked
def union(*rules: FusionRule) -> FusionRule:
    if not rules:
        raise ValueError("`union` needs at least one rule")
    return Union(tuple(map(_rule, rules)))


@_checked
def primitive(rule: FusionRule) -> FusionRule:
    """`rule` unchanged: every target makes one kernel of each candidate anyway."""
    return _rule(rule)


@_checked
def max_coalesce(rule: FusionRule, *, prefer: Preference = "largest") -> FusionRule:
    return MaxCoalesce(_rule(rule), prefer)


JOIN_ANYTHING = JoinAnything()
INJECTIVE_BRANCHES = InjectiveBranches()
TUPLE_ARGS = TupleArgs()
TUPLE_PROJECTIONS = TupleProjections()
CONSTANTS = Constants()


@_checked
def kind(upstream: Kind, downstream: Kind) -> Primitive:
    """`kind(anchor -> broadcast)`"""
    return KindPair(upstream, downstream)


@_checked
def combine_by_primitives(
    rule: FusionRule,
    *,
    using: tuple[Primitive, ...] = TVM_DEFAULT,
    max_depth: int | None = None,
    max_nodes: int | None = None,
    max_splits: int | None = None,
) -> FusionRule:
    return CombineByPrimitives(_rule(rule), using, max_depth, max_nodes, max_splits)


@_checked
def horizontal(rule: FusionRule, *, max: int = 3) -> FusionRule:  # noqa: A002 (as in files)
    return Horizontal(_rule(rule), max)


@_checked
def vertical(
    rule: FusionRule,
    *,
    prologue: Kind | None = Kind.BROADCAST,
    epilogue: Kind | None = Kind.BROADCAST,
    max_depth: int = USUAL_DEPTH,
) -> FusionRule:
    return Vertical(_rule(rule), prologue, epilogue, max_depth)


@_checked
def only_valid(rule: FusionRule, limits: Limits) -> FusionRule:
    return OnlyValid(_rule(rule), limits)


@_checked
def only_variants(rule: FusionRule, variants: Sequence[str]) -> FusionRule:
    return OnlyVariants(_rule(rule), tuple(variants))


@_checked
def name(glob: str) -> Selector:
    """Selects the operator calls whose names match a glob: `name("/head/*")`."""
    return ByName(glob)


@_checked
def op(*operators: str) -> Selector:
    """Selects the calls of some operators: `op("nn.softmax", "tanh")`."""
    return ByOperator(operators)


@_checked
def pin(selector: Selector, *, because: str = "") -> Placement:
    """A placement: only the target that it is given to may run the selected calls."""
    return Placement("pin", selector, because)


@_checked
def forbid(selector: Selector, *, because: str = "") -> Placement:
    """A placement: the target that it is given to may not run the selected calls."""
    return Placement("forbid", selector, because)


@_checked
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
    made = _rule(rules)
    spec = FusionSpec(toolchain, made, limits or Limits(), coalesce, fallback, tuple(placements))
    return checked([with_distinct_names({name: spec})[name]], "<builder>")[name]


def _defined(definition: Any) -> Definition:
    match definition:
        case CheckedRule(rule):
            assert rule is not None, "a file without errors has whole rules"
            return _rule(rule)
        case tuple():
            return Operators(
                tuple(each if isinstance(each, Kind) else each.name for each in definition)
            )
        case Pattern() | Predicate():
            return definition
        case _:
            raise AssertionError(definition)


def _attribute(term: Term) -> conditions.Attr | conditions.AttrOf:
    if not isinstance(term.expression, conditions.Attr | conditions.AttrOf):
        raise ValueError("only an attribute has elements")
    return term.expression


def _expression(value: Any) -> Expression:
    if isinstance(value, Term):
        return value.expression
    return conditions.Constant(_plain(value))


def _plain(value: Any) -> Plain:
    """`value` as a part of a condition; lists become tuples. Raises TypeError if it cannot be."""
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    if value is None or isinstance(value, bool | int | float | str):
        return value
    what = f"not with a value of type {type(value).__name__}"
    raise TypeError(f"a term is compared with a term, number, string, list or None, {what}")
