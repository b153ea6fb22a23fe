"""What is so in nearly all models, where a pattern does not say otherwise."""

from collections.abc import Iterator, Mapping, Sequence

from collage_dsl.graph import Attribute
from collage_dsl.graph.operators import operators
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.conclusions.premises import Condition
from collage_dsl.language.reasoning.conclusions.usual_dtypes import usual_dtypes, usual_factors
from collage_dsl.language.reasoning.conclusions.usual_elements import (
    asked_of_elements,
    usual_elements,
)
from collage_dsl.language.reasoning.conclusions.usual_scales import usual_scales
from collage_dsl.language.reasoning.conclusions.usual_windows import usual_fits, usual_windows
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.language.reasoning.values.terms import Term, terms
from collage_dsl.rules.condition import (
    Attr,
    AttrOf,
    Bytes,
    Compare,
    Constant,
    DimAt,
    Each,
    Element,
    Expression,
    Item,
    Rank,
    Size,
    Value,
    Within,
    every_part,
)
from collage_dsl.source import Span

_ATTRIBUTES = frozenset(
    {"assume_inbound", "block_size", "ceil_mode", "data_layout", "dilation", "kernel_layout"}
    | {"k_quant_type", "layout", "out_layout", "transBatchA", "transBatchB"}
    | {"v_quant_type", "weight_prepacked"}
)
"""Attributes that have their default in nearly all models."""

_SORTING = frozenset({"argsort", "topk"})

_INDICES = ("i32", "i64")
"""The dtypes that an operator which sorts is usually told to give."""


def usual(
    calls: Sequence[Called], conditions: Sequence[Condition], ways: Sequence[Facts]
) -> Iterator[Condition]:
    """What the pattern does not say, and what is so in nearly all models, as conditions."""
    yield from usual_dtypes(calls, conditions, ways)
    yield from _usual_products(calls, ways)
    yield from _usual_numbers(calls, conditions)
    yield from _usual_attributes(calls, conditions, ways)
    yield from _usual_sizes(conditions, ways)
    yield from _usual_indices(calls, ways)
    yield from _usual_parts(calls)
    yield from _usual_scales(calls, ways)
    yield from _usual_windows(calls, conditions, ways)


def _usual_parts(calls: Sequence[Called]) -> Iterator[Condition]:
    """That a part of a value has fewer elements: TVM gives no tuple of one part."""
    for called, span in _written(calls):
        if called.call.ops == ("split",):
            for name in called.results.values():
                smaller = Compare("<", Size(name), Size(called.operands[0]))
                yield Condition(smaller, span, usual="no part that `split` gives is empty")


def _usual_scales(calls: Sequence[Called], ways: Sequence[Facts]) -> Iterator[Condition]:
    """What scales and zero points are, and the numbers that they go with."""
    for called, span in _written(calls):
        for expression, words in usual_scales(called, ways):
            yield Condition(expression, span, usual=words)


def _usual_products(calls: Sequence[Called], ways: Sequence[Facts]) -> Iterator[Condition]:
    """That floats are multiplied with floats of the same dtype."""
    for called, span in _written(calls):
        for same, words in usual_factors(called, ways):
            yield Condition(same, span, usual=words)


def _usual_windows(
    calls: Sequence[Called], conditions: Sequence[Condition], ways: Sequence[Facts]
) -> Iterator[Condition]:
    """That the padding beside an image is smaller than a window, where anything is said of it."""
    named = (_attribute_in(term) for c in conditions for term in terms(c.expression))
    asked = frozenset(attribute for attribute in named if isinstance(attribute, Attr))
    for called, span in _written(calls) if asked else ():
        for smaller in usual_windows(called, asked, ways):
            words = f"the padding of `{called.call.ops[0]}` is smaller than its window"
            yield Condition(smaller, span, usual=words)
        for fits in usual_fits(called, asked, ways):
            words = f"the window of `{called.call.ops[0]}` fits into the padded data"
            yield Condition(fits, span, usual=words)


def _attribute_in(term: Term) -> Attr | AttrOf | None:
    """The attribute that a term asks about, as a whole or each element."""
    match term:
        case Each(attribute) | Item(attribute):
            return attribute
        case Attr():
            return term
        case _:
            return None


def _usual_indices(calls: Sequence[Called], ways: Sequence[Facts]) -> Iterator[Condition]:
    """That what sorts gives whole numbers as indices."""
    for called, span in _written(calls):
        if _SORTING.issuperset(called.call.ops):
            dtype = called.attribute("dtype")
            if not any(_is_asked(dtype, way) for way in ways):
                words = f"the indices that `{called.call.ops[0]}` gives are whole numbers"
                yield Condition(Within(dtype, Constant(_INDICES)), span, usual=words)


def _usual_numbers(calls: Sequence[Called], conditions: Sequence[Condition]) -> Iterator[Condition]:
    """That constants have elements of which a condition asks, and which ones operators take."""
    for condition in conditions:
        for name in _constants(condition.expression):
            yield Condition(Compare(">=", Size(name), Constant(1)), condition.span)
    asked = {of for c in conditions for of in asked_of_elements(c.expression)}
    for called, span in _written(calls):
        for expression, words in usual_elements(called, asked):
            yield Condition(expression, span, usual=words)


def _usual_attributes(
    calls: Sequence[Called], conditions: Sequence[Condition], ways: Sequence[Facts]
) -> Iterator[Condition]:
    """
    That attributes have their defaults, and a result the layout of the data. Where one call has
    another layout than usual, nothing is known of the layouts of others. Nothing is said of a
    single call of which no condition asks a shape.
    """
    is_asked = any(_is_of_shape(term) for c in conditions for term in terms(c.expression))
    if is_asked or len(calls) > 1:
        is_usual = not any(_has_other_layout(called, ways) for called in calls)
        for called, span in _written(calls):
            for attribute, value in _attributes(called, ways, is_usual):
                yield Condition(Compare("==", attribute, Constant(value)), span)


def _usual_sizes(conditions: Sequence[Condition], ways: Sequence[Facts]) -> Iterator[Condition]:
    """That no dimension is 0 of which a condition asks."""
    spans = {term: c.span for c in conditions for term in terms(c.expression)}
    for term, span in spans.items():
        is_there = isinstance(term, DimAt | Size | Bytes) and all(_is_there(term, w) for w in ways)
        if is_there and any(0 in way.of(term) for way in ways):
            yield Condition(Compare(">=", term, Constant(1)), span)


def usual_dimensions(
    calls: Sequence[Called], conditions: Sequence[Condition], ways: Sequence[Facts]
) -> Iterator[Condition]:
    """
    That no dimension is 0 of which no condition asks, but which operators compare with others, or
    say to be 0.
    """
    if not conditions or not ways:
        return
    asked = {term for condition in conditions for term in terms(condition.expression)}
    first, *others = (_compared(way) for way in ways)
    common = [term for term in first if term not in asked and all(term in each for each in others)]
    of_calls = {name for called, _ in _written(calls) for name in _values_of(called)}
    for term in sorted(common, key=str):
        if term.of in of_calls and all(_has_axis(term, way) for way in ways):
            yield Condition(Compare(">=", term, Constant(1)), conditions[-1].span)


def _compared(way: Facts) -> set[DimAt]:
    """The dimensions that may be 0 and are part of comparisons, and those that are always 0."""
    compared = [*way.differences.values, *way.sums, *way.sums.values()]
    found = {term for node in compared if node is not None for term in terms(node)}
    dims = {term for term in found if isinstance(term, DimAt) and 0 in way.of(term)}
    zero = (term for term, values in way.values.items() if values.only() == 0)
    return dims | {term for term in zero if isinstance(term, DimAt)}


def _values_of(called: Called) -> Iterator[str]:
    """The tensors that a call takes and gives."""
    yield from called.results.values()
    for at in range(len(called.operands)):
        yield from called.tensors(at)


def _has_axis(term: DimAt, way: Facts) -> bool:
    """Whether a dimension is known to be one of a tensor."""
    least, _ = way.of(Rank(term.of)).bounds()
    return term.of not in way.lists and least > (term.axis if term.axis >= 0 else -1 - term.axis)


def _written(calls: Sequence[Called]) -> Iterator[tuple[Called, Span]]:
    """Those with operators that are in every match, and where they are written."""
    for called in calls:
        is_sure = not (called.call.kinds or called.call.optional or called.is_path)
        if called.span is not None and is_sure:
            yield called, called.span


def _constants(expression: Expression) -> Iterator[str]:
    """The constants of which `expression` asks all elements."""
    return (part.of for part in every_part(expression) if isinstance(part, Element))


def _is_there(term: DimAt | Size | Bytes, way: Facts) -> bool:
    """Whether this is known to be about a tensor."""
    return term in way.known and term.of not in way.lists


def _is_of_shape(term: Term) -> bool:
    return isinstance(term, Rank | DimAt | Size | Bytes)


def _has_other_layout(called: Called, ways: Sequence[Facts]) -> bool:
    """Whether the pattern says another layout of a call than its default."""
    return any(
        any(_is_asked(called.attribute(name), way) for way in ways)
        and _known(called.attribute(name), ways) != value
        for name, value in _defaults(called).items()
        if name.endswith("layout")
    )


def _defaults(called: Called) -> Mapping[str, Attribute]:
    """Of nodes with steps, `layout` is a number, and batches before steps are not unusual."""
    if called.call.kinds:
        return {}
    first, *others = (operators()[op].defaults for op in called.call.ops)
    return {
        name: value
        for name, value in first.items()
        if name in _ATTRIBUTES
        and not (name == "layout" and value == 0)
        and all(other.get(name) == value for other in others)
    }


def _attributes(
    called: Called, ways: Sequence[Facts], is_usual: bool
) -> Iterator[tuple[Attr, Value]]:
    for name, value in _with_layout(called, _defaults(called), ways, is_usual).items():
        attribute = called.attribute(name)
        if value is not None and not any(_is_asked(attribute, way) for way in ways):
            yield attribute, value


def _is_asked(attribute: Attr, way: Facts) -> bool:
    """Whether the pattern says anything of an attribute."""
    return attribute in way.known or way.of(attribute).only() is not None


def _with_layout(
    called: Called, defaults: Mapping[str, Attribute], ways: Sequence[Facts], is_usual: bool
) -> Mapping[str, Attribute]:
    """`defaults`, but a result has the layout of the data, and that of a weight goes with it."""
    data = next((name for name in ("data_layout", "layout") if name in defaults), None)
    left = {name: value for name, value in defaults.items() if not name.endswith("layout")}
    if data is None or not any(_is_asked(called.attribute(data), way) for way in ways):
        return defaults if is_usual else left
    known = _known(called.attribute(data), ways)
    if known == defaults[data]:
        return defaults
    return {**left, "out_layout": known} if "out_layout" in defaults else left


def _known(attribute: Attr, ways: Sequence[Facts]) -> Value | None:
    """What an attribute is in all ways; None if that is not known."""
    found = {way.of(attribute).only() for way in ways}
    return found.pop() if len(found) == 1 else None
