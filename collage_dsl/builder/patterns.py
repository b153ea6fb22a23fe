"""Collect a pattern: its parameters, equations and conditions."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from collage_dsl.builder.terms import Term, checked_types
from collage_dsl.builder.values import Operators, Value, list_of
from collage_dsl.graph import Kind
from collage_dsl.language.reasoning.patterns.pattern_shape import always_there
from collage_dsl.language.resolve.dimensions import Dimensions
from collage_dsl.rules import Pattern
from collage_dsl.rules.condition import Where
from collage_dsl.rules.pattern import ANY, OPEN, Binding, Excluded, Parameter, Reference


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

    @checked_types
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

    @checked_types
    def constant(self, name: str, *, optional: bool = False, dims: Dims | None = None) -> Value:
        """A parameter that is a constant, bound inside the kernel."""
        return self._parameter(Parameter(name, constant=True, optional=optional), dims)

    def _parameter(self, parameter: Parameter, dims: Dims | None) -> Value:
        self.parameters.append(parameter)
        if dims is not None:
            if list(dims).count(OPEN) > 1:
                raise ValueError(f"`dims` of `{parameter.name}` may have one `{OPEN}`, not several")
            self.demands += [where for _, where in self.dimensions.demands(parameter, dims)]
        return Value(Reference(parameter.name))

    @checked_types
    def list_of(self, name: str, *items: int | str) -> Value:
        """
        Add the equation `name = [n, _, 64]`: a list whose items are numbers, names, `"_"` and
        `".."`. A name is the same number everywhere, also in `dims`.
        """
        self.dimensions.note_list(name, items)
        return self.bind(name, list_of(*(item if _is_plain(item) else ANY for item in items)))

    @checked_types
    def dim(self, name: str) -> Term:
        """A dimension that a parameter or an item of a list has named."""
        place = self.dimensions.place(name)
        if place is None:
            raise ValueError(f"no parameter or list has a dimension `{name}`")
        return Term(place)

    @checked_types
    def bind(self, name: str, value: Value) -> Value:
        """Add the equation `name = value`."""
        self.bindings.append(Binding(name, value.operand))
        return Value(Reference(name))

    @checked_types
    def where(self, term: Term, reason: str = "") -> None:
        self.conditions.append(Where(term.expression, reason))

    @checked_types
    def anchor(self, value: Value) -> None:
        """`anchor k;`: the main operator."""
        self.main = value.name

    @checked_types
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
