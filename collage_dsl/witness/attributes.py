"""Choose the attributes of calls: the defaults where nothing is asked, else what facts allow."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import permutations
from typing import TypeGuard

from collage_dsl.graph import Attribute
from collage_dsl.graph.operators import Operator, operators
from collage_dsl.graph.types import dtype_names, long_dtype, short_dtype
from collage_dsl.language.reasoning.operators.attribute_values import stored_length
from collage_dsl.language.reasoning.values.domain import WHOLE, Values
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import (
    Attr,
    AttrOf,
    DimAt,
    Each,
    Expression,
    Given,
    Has,
    Item,
    Rank,
    Value,
    depends_on_facts,
    every_part,
)
from collage_dsl.rules.evaluation import evaluate
from collage_dsl.witness.state import State, fields_taken
from collage_dsl.witness.values import some_of

_LAYOUTS = ("data_layout", "layout")
_SHAPING = ("axis", "axes", "keepdims", "indices_or_sections")
_MOST_LISTS = 60
_MOST_MIXED = 2

_USUAL: Mapping[str, tuple[Attribute, ...]] = {
    "axes": ((-1,), (0,), (-2, -1), (2, 3), (0, 1)),
    "axis": (0, 1, -1, (0,), (1,), (-1,), 2, (0, 1), (1, 2), (0, 1, 2), (0, 1, 2, 3), ()),
    "channel_axis": (1, 0, -1),
    "num_groups": (1, 2),
    "pad_width": tuple((0,) * (2 * rank) for rank in (2, 4, 1, 3, 5, 0)),
    "upscale_factor": (1, 2),
    "depth": (4,),
    "repeats": (2, (1,), (1, 1)),
    "dtype": ("float32", "float16"),
    "subscripts": ("ij,jk->ik",),
    "function": ("f",),
    "pooled_size": ((2, 2),),
    "spatial_scale": (1.0,),
    "num_workers": (1,),
}
"""Values of attributes that have no default, or none that fits."""


def attributes(state: State, part: int) -> Iterator[State]:
    """The states in which the attributes of the call `part` are decided."""
    operator = operators()[state.known.reading.parts[part].op]
    asked = [name for name in operator.attrs if is_asked(state, part, name)]
    plain = [name for name in operator.attrs if name not in asked]
    yield from _decided(_with_attributes(state, part, {}), part, operator, (*asked, *plain))


def _with_attributes(state: State, part: int, attrs: Mapping[str, Attribute]) -> State:
    return replace(state, attributes={**state.attributes, part: attrs})


def is_asked(state: State, part: int, name: str) -> bool:
    """Whether a condition of the pattern may be about the attribute."""
    return any(
        asked.name == name
        for condition in state.known.conditions
        for asked in every_part(condition.written)
        if isinstance(asked, AttrOf) or (isinstance(asked, Attr) and condition.at == part)
    )


def _decided(
    state: State, part: int, operator: Operator, names: tuple[str, ...]
) -> Iterator[State]:
    if not names:
        if all(
            _can_hold(state, part, condition.written)
            for condition in state.known.conditions
            if condition.at == part and not condition.is_about_the_graph
        ):
            yield state
        return
    name, rest = names[0], names[1:]
    if operator.attrs[name] == "object":
        yield from _decided(state, part, operator, rest)
        return
    term = state.known.attribute(part, name)
    for value in candidates(state, part, operator, name):
        after = state.without_value(term) if value is None else state.assuming(term, _short(value))
        if after is None:
            continue
        attrs = {**state.attributes[part], name: value}
        yield from _decided(_with_attributes(after, part, attrs), part, operator, rest)


def _can_hold(state: State, part: int, written: Expression) -> bool:
    """Whether a condition that asks only about the attributes of `part` can hold."""
    if depends_on_facts(written):
        return True
    return evaluate(written, Given(attrs=state.attributes[part])) is True


def _short(value: Attribute) -> Value:
    return short_dtype(value) if isinstance(value, str) else value


def candidates(state: State, part: int, operator: Operator, name: str) -> list[Attribute]:
    """
    The values of an attribute, the most usual one first. If there is chance, those that are asked
    about are in any order, and often also those that say which dimensions there are.
    """
    term = state.known.attribute(part, name)
    has, values = state.facts.of(Has(term.name)), state.facts.of(term)
    usual = _usual(state, part, operator, name)
    found: list[Attribute] = []
    if True in has:
        found += _valued(state, operator, name, term, values, usual)
    if False in has and None in usual[:1]:
        found.insert(0, None)
    elif False in has and name in operator.may_be_none:
        found.append(None)
    if state.random is None or len(found) > _MOST_LISTS:
        return found
    chance = 1.0 if is_asked(state, part, name) else 0.5 if name in _SHAPING else 0.1
    if state.random.random() < chance:
        state.random.shuffle(found)
    return found


def _usual(state: State, part: int, operator: Operator, name: str) -> list[Attribute]:
    chosen = state.attributes[part]
    if name == "out_layout":
        written = [chosen[layout] for layout in _LAYOUTS if layout in chosen]
        if written:
            return written
    found: list[Attribute] = []
    if name in operator.defaults:
        found.append(operator.defaults[name])
    elif name in operator.may_be_none and operator.attrs[name] == "str":
        found.append(None)
    if name == "indices_or_sections":
        fields = max(2, fields_taken(state, part))
        found += [fields, fields + 1, tuple(range(1, fields))]
    if name == "pad_width":
        found += _widths(state, part)
    found += _USUAL.get(name, ())
    return found


def _widths(state: State, part: int) -> Iterator[tuple[int, ...]]:
    """What has to be added behind the data, if its shape is known."""
    known, facts = state.known, state.facts
    data, result = known.name(known.reading.parts[part].of[0]), known.name(part)
    rank = facts.of(Rank(data)).only()
    if isinstance(rank, int):
        added = (_added(facts, DimAt(data, axis), DimAt(result, axis)) for axis in range(rank))
        yield tuple(width for each in added for width in (0, each))


def _added(facts: Facts, before: DimAt, after: DimAt) -> int:
    """By how much a dimension grows at least."""
    dim, dims = facts.of(before).only(), facts.of(after)
    least, _ = dims.whole_bounds()
    return int(least) - dim if isinstance(dim, int) and dim not in dims else 0


def _valued(
    state: State,
    operator: Operator,
    name: str,
    term: Attr,
    values: Values,
    usual: list[Attribute],
) -> Iterator[Attribute]:
    type_ = operator.attrs[name]
    plain = [_short(value) for value in usual if value is not None]
    named = list(state.numbers)
    match type_:
        case "bool":
            options: list[Value] = [v for v in (*plain, True, False) if isinstance(v, bool)]
            found = [value for value in dict.fromkeys(options) if value in values]
        case "int":
            whole = [v for v in (*plain, 1, 0, 2, -1, *named) if type(v) is int]
            found = some_of(values.meet(WHOLE), [v for v in whole if v in values])
        case "float":
            numbers = [float(v) for v in (*plain, *named, 1.0, 0.5) if _is_number(v)]
            near = [n + d for n in numbers for d in (0.5, -0.5, 1.0, -1.0)]
            found = [float(v) for v in some_of(values, [*numbers, *near]) if _is_number(v)]
        case "str" | "dtype":
            known = operator.values.get(name, ()) if type_ == "str" else dtype_names()
            texts = [v for v in (*plain, *named, *known, "x") if isinstance(v, str)]
            if known:
                texts = [v for v in texts if v in known]
            found = [v for v in some_of(values, texts) if v in (*texts, *(values.allowed or ()))]
        case _:
            found = list(_lists(state, operator, name, term, values, plain, type_))
    for value in found:
        if type_ == "dtype" and isinstance(value, str):
            if dtype := long_dtype(value):
                yield dtype
        else:
            yield value


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _lists(
    state: State,
    operator: Operator,
    name: str,
    term: Attr,
    values: Values,
    usual: list[Value],
    type_: str,
) -> Iterator[Value]:
    """Lists of numbers that facts allow, as a whole and each element."""
    found: dict[Value, None] = {}
    named = [v for v in state.numbers if isinstance(v, tuple) and all(map(_is_number, v))]
    listed = [v for v in values.allowed or () if v in values]
    stored = stored_length(operator, name)
    whole: list[Value] = [v for v in (*usual, *sorted(listed, key=str), *named) if v in values]
    if type_ == "int|ints":
        whole += [v for v in state.numbers if type(v) is int and v in values]
    for value in whole:
        if not isinstance(value, tuple) and type_ != "int|ints":
            value = (value,)
        found[value] = None
    lengths = [stored] if stored is not None else [2, 4, 1, 3, 5, 6, 8, 0]
    if values.allowed is None:
        for length in dict.fromkeys(lengths):
            for each in _elements(state, term, length, usual, type_):
                found[each] = None
            for _ in range(_MOST_MIXED if state.random is not None else 0):
                if row := _mixed(state, term, length, type_):
                    found[row] = None
        if name == "axes":
            for length in (2, 3, 4):
                for order in permutations(range(length)):
                    found[order] = None
    for value in found:
        is_stored = not isinstance(value, tuple) or stored in (None, len(value))
        fits = is_stored and value in values
        if fits and _elements_fit(state, term, value):
            yield value


def _elements(
    state: State, term: Attr, length: int, usual: list[Value], type_: str
) -> Iterator[Value]:
    default = next((v for v in usual if isinstance(v, tuple) and len(v) == length), (1,) * length)
    for first in (0, 1):
        row: list[Value] = []
        for at in range(length):
            options = _element(state, term, at, length, default[at], type_)
            if not options:
                return
            row.append(options[min(first, len(options) - 1)])
        yield tuple(row)


def _mixed(state: State, term: Attr, length: int, type_: str) -> tuple[Value, ...]:
    """A list of any elements that are possible; empty if there is none."""
    options = (_element(state, term, at, length, 0, type_) for at in range(length))
    rows = [state.ordered(each)[:1] for each in options]
    return tuple(row[0] for row in rows if row) if all(rows) else ()


def _element(
    state: State, term: Attr, at: int, length: int, default: Value, type_: str
) -> list[Value]:
    values = state.facts.of(Each(term))
    for index in (at, at - length):
        values = values.meet(state.facts.of(Item(term, index)))
    named = [v for v in state.numbers if _is_number(v)]
    usual: list[Value] = [default, 1, 0, 2, 3, *named]
    if type_ == "floats":
        return [float(v) for v in some_of(values, usual) if _is_number(v)]
    return [v for v in some_of(values.meet(WHOLE), usual) if type(v) is int]


def _elements_fit(state: State, term: Attr, value: Value) -> bool:
    if not isinstance(value, tuple):
        return True
    each = state.facts.of(Each(term))
    return all(
        item in each
        and item in state.facts.of(Item(term, at))
        and item in state.facts.of(Item(term, at - len(value)))
        for at, item in enumerate(value)
    )
