"""What is so in nearly all models, where a pattern does not say otherwise."""

from collections.abc import Iterator, Mapping, Sequence

from collage_dsl.graph import Attribute
from collage_dsl.graph.operators import operators
from collage_dsl.language.reasoning.facts import Facts
from collage_dsl.language.reasoning.premises import Condition
from collage_dsl.language.reasoning.required_calls import Called
from collage_dsl.language.reasoning.terms import Term, terms
from collage_dsl.rules.condition import Attr, Compare, Constant, DimAt, Dtype, Rank, Size, Value

_ATTRIBUTES = frozenset(
    {"assume_inbound", "ceil_mode", "data_layout", "dilation", "kernel_layout", "layout"}
    | {"out_layout"}
)
"""Attributes that have their default in nearly all models."""


def usual(
    calls: Sequence[Called], conditions: Sequence[Condition], ways: Sequence[Facts]
) -> Iterator[Condition]:
    """
    Conditions of which the pattern says nothing: that attributes have their defaults, a result the
    layout of the data, and that no dimension is 0. None if no condition is about shapes. And that
    none of two tensors whose dtypes are said to differ is `bool`.
    """
    for condition in conditions:
        match condition.expression:
            case Compare("!=", Dtype() as one, Dtype() as other):
                for dtype in (one, other):
                    if not any(way.of(dtype).only() for way in ways):
                        yield Condition(Compare("!=", dtype, Constant("bool")), condition.span)
    spans = {term: c.span for c in conditions for term in terms(c.expression) if _is_of_shape(term)}
    if not spans:
        return
    for called in calls:
        if called.span is not None and not called.call.kinds and not called.call.optional:
            for attribute, value in _attributes(called, ways):
                yield Condition(Compare("==", attribute, Constant(value)), called.span)
    for term, span in spans.items():
        if isinstance(term, DimAt) and all(_is_there(term, way) for way in ways):
            yield Condition(Compare(">=", term, Constant(1)), span)


def _is_there(dim: DimAt, way: Facts) -> bool:
    """Whether this is known to be a dimension of a tensor."""
    return dim in way.known and dim.of not in way.lists


def _is_of_shape(term: Term) -> bool:
    return isinstance(term, Rank | DimAt | Size)


def _attributes(called: Called, ways: Sequence[Facts]) -> Iterator[tuple[Attr, Value]]:
    first, *others = (operators()[op].defaults for op in called.call.ops)
    defaults = {
        name: value
        for name, value in first.items()
        if name in _ATTRIBUTES and all(other.get(name) == value for other in others)
    }
    for name, value in _with_layout(called, defaults, ways).items():
        attribute = called.attribute(name)
        if value is not None and not any(_is_asked(attribute, way) for way in ways):
            yield attribute, value


def _is_asked(attribute: Attr, way: Facts) -> bool:
    """Whether the pattern says anything of an attribute."""
    return attribute in way.known or way.of(attribute).only() is not None


def _with_layout(
    called: Called, defaults: Mapping[str, Attribute], ways: Sequence[Facts]
) -> Mapping[str, Attribute]:
    """`defaults`, but a result has the layout of the data, and that of a weight goes with it."""
    data = next((name for name in ("data_layout", "layout") if name in defaults), None)
    if data is None or not any(_is_asked(called.attribute(data), way) for way in ways):
        return defaults
    known = _known(called.attribute(data), ways)
    if known == defaults[data]:
        return defaults
    left = {name: value for name, value in defaults.items() if not name.endswith("layout")}
    return {**left, "out_layout": known} if "out_layout" in defaults else left


def _known(attribute: Attr, ways: Sequence[Facts]) -> Value | None:
    """What an attribute is in all ways; None if that is not known."""
    found = {way.of(attribute).only() for way in ways}
    return found.pop() if len(found) == 1 else None
