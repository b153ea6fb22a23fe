"""
The functions of the language that stand for rules, and the words that stand for primitives.

These tables say how each rule and primitive is named, and what its arguments are. The checker, the
printer and the editor read them. The defaults and explanations are those of the classes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass
from enum import Enum
from typing import Any, get_args

from collage_dsl.rules.horizontal import REACH
from collage_dsl.rules.limits import Limits
from collage_dsl.rules.primitive import (
    TVM_DEFAULT,
    Constants,
    InjectiveBranches,
    JoinAnything,
    KindPair,
    Primitive,
    TupleArgs,
    TupleProjections,
)
from collage_dsl.rules.regions import Preference
from collage_dsl.rules.rule import (
    CombineByPrimitives,
    DFPattern,
    FusionRule,
    Horizontal,
    Host,
    MaxCoalesce,
    OnlyValid,
    OnlyVariants,
    OpCallByKind,
    OpPredicate,
    Tagged,
    Union,
    Vertical,
)


class Sort(Enum):
    """What an argument is. The value stands for it in the signature of a function."""

    RULE = "rule"
    KIND = "kind"
    KIND_OR_NONE = "kind or none"
    PATTERN = "pattern"
    PREDICATE = "predicate"
    LABEL = "label"
    OPERATORS = "[operators…]"
    PRIMITIVES = "[primitives…]"
    VARIANTS = "[variants…]"
    LIMITS = "limits"
    """Any of `LIMITS`, each as an argument with its own name."""
    TAPS = "allowed"
    TRUTH = "true"


@dataclass(frozen=True, slots=True)
class WholeNumber:
    """A whole number of at least `least` and at most `most`. `any`, if allowed, is no bound."""

    least: int = 1
    most: int | None = None
    may_be_any: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some words."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Argument:
    """
    An argument of a function. `name` is also the field of the class that it becomes.

    It is written as `value`, as `name: value` if it `is_named`, and as any number of values if
    there may be `many`. The fix for a missing argument writes `usual`.
    """

    name: str
    sort: Sort | WholeNumber | Choice
    is_named: bool = False
    many: bool = False
    usual: str = ""

    @property
    def signature(self) -> tuple[str, ...]:
        """How it is shown in a signature: `rule`, `kinds…`, `max_depth: number`."""
        if self.sort is Sort.LIMITS:
            return tuple(shown for limit in LIMITS for shown in limit.signature)
        match self.sort:
            case WholeNumber():
                value = "number"
            case Choice(words):
                value = " or ".join(words)
            case sort:
                value = sort.value
        if self.many:
            return (f"{self.name}…",)
        return (f"{self.name}: {value}",) if self.is_named else (value,)


def _named(name: str, sort: Sort | WholeNumber | Choice, usual: str = "") -> Argument:
    return Argument(name, sort, is_named=True, usual=usual)


_BOUND = WholeNumber()
_BOUND_OR_ANY = WholeNumber(may_be_any=True)

LIMITS = (
    _named("max_exits", _BOUND_OR_ANY),
    _named("max_depth", _BOUND_OR_ANY),
    _named("max_nodes", _BOUND_OR_ANY),
    _named("taps", Sort.TAPS),
    _named("min_nodes", _BOUND),
    _named("largest_first", Sort.TRUTH),
    _named("max_regions", _BOUND_OR_ANY),
    _named("max_candidates", _BOUND),
)
"""The limits of a target and of `only_valid`; each is a field of `Limits`."""

LIMIT_NAMES = tuple(limit.name for limit in LIMITS)


@dataclass(frozen=True, slots=True)
class RuleFunction:
    """
    A function that stands for a rule of class `made`. Arguments without a name come first.

    `primitive(rule)` makes nothing: it is `rule` itself.
    """

    name: str
    made: type | None
    arguments: tuple[Argument, ...]

    @property
    def plain(self) -> tuple[Argument, ...]:
        """The arguments without a name."""
        return tuple(argument for argument in self.arguments if not argument.is_named)

    @property
    def named(self) -> tuple[Argument, ...]:
        """The arguments with a name, the limits one by one."""
        found = (argument for argument in self.arguments if argument.is_named)
        return tuple(
            each
            for argument in found
            for each in (LIMITS if argument.sort is Sort.LIMITS else (argument,))
        )

    @property
    def keywords(self) -> tuple[str, ...]:
        return tuple(argument.name for argument in self.named)

    @property
    def takes(self) -> tuple[int, int | None]:
        """The least and the most number of arguments without a name."""
        least = sum(self.default(argument) is MISSING for argument in self.plain)
        return least, None if any(each.many for each in self.plain) else len(self.plain)

    @property
    def signature(self) -> tuple[str, ...]:
        return tuple(shown for argument in self.arguments for shown in argument.signature)

    @property
    def call(self) -> str:
        """A call with the arguments without a name, as the signature says them."""
        return f"{self.name}({', '.join(s for each in self.plain for s in each.signature)})"

    def argument(self, at: int, name: str = "") -> Argument | None:
        """The argument called `name`, or without a name the one at place `at`."""
        if name:
            return next((each for each in self.named if each.name == name), None)
        plain = self.plain
        if plain and plain[-1].many:
            at = min(at, len(plain) - 1)
        return plain[at] if at < len(plain) else None

    def default(self, argument: Argument) -> Any:
        """What an absent argument means; `MISSING` if it may not be absent."""
        return default_of(self.made, argument.name) if self.made else MISSING


def default_of(made: type, name: str) -> Any:
    """The default of a field of a dataclass; `MISSING` if it has none."""
    return made.__dataclass_fields__[name].default  # type: ignore[attr-defined]


_RULE = Argument("rule", Sort.RULE)

_FUNCTIONS = (
    RuleFunction("op_call_by_kind", OpCallByKind, (Argument("kinds", Sort.KIND, many=True),)),
    RuleFunction("dfpattern", DFPattern, (Argument("pattern", Sort.PATTERN),)),
    RuleFunction(
        "op_predicate",
        OpPredicate,
        (Argument("predicate", Sort.PREDICATE), _named("ops", Sort.OPERATORS)),
    ),
    RuleFunction("composite", Tagged, (Argument("label", Sort.LABEL), _RULE)),
    RuleFunction("union", Union, (Argument("rules", Sort.RULE, many=True),)),
    RuleFunction(
        "combine_by_primitives",
        CombineByPrimitives,
        (
            _RULE,
            _named("using", Sort.PRIMITIVES, usual="tvm_default"),
            _named("max_depth", _BOUND),
            _named("max_nodes", _BOUND),
            _named("max_splits", WholeNumber(0, 2)),
        ),
    ),
    RuleFunction("horizontal", Horizontal, (_RULE, _named("max", WholeNumber(2, REACH + 1)))),
    RuleFunction(
        "vertical",
        Vertical,
        (
            _RULE,
            _named("prologue", Sort.KIND_OR_NONE),
            _named("epilogue", Sort.KIND_OR_NONE),
            _named("max_depth", _BOUND),
        ),
    ),
    RuleFunction("only_valid", OnlyValid, (_RULE, _named("limits", Sort.LIMITS))),
    RuleFunction("only_variants", OnlyVariants, (_RULE, Argument("variants", Sort.VARIANTS))),
    RuleFunction(
        "max_coalesce", MaxCoalesce, (_RULE, _named("prefer", Choice(get_args(Preference))))
    ),
    RuleFunction("primitive", None, (_RULE,)),
    RuleFunction("host", Host, ()),
)

RULES: Mapping[str, RuleFunction] = {function.name: function for function in _FUNCTIONS}
"""The functions that stand for rules, by name."""

_BY_CLASS = {function.made: function for function in _FUNCTIONS}


def function_of(rule: FusionRule) -> RuleFunction:
    """The function that makes a rule of this class."""
    return _BY_CLASS[type(rule)]


# Primitives.

KIND_PAIR = "kind"
"""The only primitive with arguments: `kind(anchor -> broadcast)`."""

PRIMITIVES: Mapping[str, tuple[Primitive, ...]] = {
    "tvm_default": TVM_DEFAULT,
    "injective_branches": (InjectiveBranches(),),
    "tuple_args": (TupleArgs(),),
    "tuple_projections": (TupleProjections(),),
    "constants": (Constants(),),
    "join_anything": (JoinAnything(),),
}
"""The primitives that each word stands for."""

PRIMITIVE_NAMES = (KIND_PAIR, *PRIMITIVES)


def primitive_text(primitive: Primitive) -> str:
    """`kind(anchor -> broadcast)`, `tuple_args`."""
    if isinstance(primitive, KindPair):
        return f"{KIND_PAIR}({primitive.upstream} -> {primitive.downstream})"
    return next(name for name, found in PRIMITIVES.items() if found == (primitive,))


def primitives_text(primitives: Iterable[Primitive]) -> str:
    """`tvm_default`, `[kind(anchor -> broadcast), constants]`."""
    found = tuple(primitives)
    if found == TVM_DEFAULT:
        return "tvm_default"
    return f"[{', '.join(map(primitive_text, found))}]"


def limit_default(limit: Argument) -> Any:
    """The value of a limit that a file does not mention."""
    return default_of(Limits, limit.name)
