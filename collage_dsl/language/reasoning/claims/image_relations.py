"""The dimensions of what convolutions and pools take and give, where their layouts are known."""

from collections.abc import Callable, Sequence
from math import inf

from collage_dsl.graph.operators import operators
from collage_dsl.language.reasoning.claims.layout_relations import layouts_of
from collage_dsl.language.reasoning.claims.list_values import asked_list
from collage_dsl.language.reasoning.claims.relations import Relation, table
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.operators.attribute_values import read_length
from collage_dsl.language.reasoning.values.arithmetic import factors
from collage_dsl.language.reasoning.values.assuming import equate
from collage_dsl.language.reasoning.values.differences import Difference
from collage_dsl.language.reasoning.values.domain import between, divided_by, one_of
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import Attr, Calculate, Constant, DimAt, Each, Item

_CONVOLUTIONS = frozenset({"nn.conv1d", "nn.conv2d", "nn.conv3d"})
_TRANSPOSED = frozenset(f"nn.conv{rank}d_transpose" for rank in (1, 2, 3))
_POOLS = frozenset(f"nn.{sort}_pool{rank}d" for sort in ("avg", "max") for rank in (1, 2, 3))
_ADAPTIVE = frozenset(f"nn.adaptive_avg_pool{rank}d" for rank in (1, 2, 3))


def _channels(called: Called, facts: Facts) -> None:
    """A convolution takes as many channels as its weight is for, in each group."""
    data, weight = called.operands
    taken, per_group = _along(called, facts, data, "C"), _along(called, facts, weight, "I")
    if taken is None:
        return
    _divide(facts, taken, called.attribute("groups"))
    if per_group is None:
        return
    groups = facts.of(called.attribute("groups")).only()
    if groups == 1:
        facts.equal(taken, per_group)
    all_channels, some = facts.of(taken).only(), facts.of(per_group).only()
    if isinstance(all_channels, int) and isinstance(some, int):
        if isinstance(groups, int):
            facts.possible &= some * groups == all_channels
        else:
            facts.possible &= some > 0 and all_channels % some == 0
            if facts.possible:
                facts.narrow(called.attribute("groups"), one_of((all_channels // some,)))
    elif isinstance(some, int) or called.attribute("groups") in facts.known:
        equate(facts, taken, Calculate("*", called.attribute("groups"), per_group))


def _divide(facts: Facts, channels: DimAt, groups: Attr) -> None:
    """There are equally many channels in each group."""
    number = facts.of(groups).only()
    if isinstance(number, int) and number > 0:
        facts.narrow(channels, divided_by(number, 0))
        return
    facts.narrow(groups, factors(facts.of(channels), 0, inf))
    if groups in facts.known and 0 not in facts.of(channels):
        facts.differ(Difference(facts.first(channels), ">=", facts.first(groups), 0))


def _made(called: Called, facts: Facts) -> None:
    """A convolution gives the channels of its weight, equally many in each group."""
    weight = _along(called, facts, called.operands[1], "O")
    if weight is None:
        return
    _divide(facts, weight, called.attribute("groups"))
    if result := _of_result(called, facts, "C"):
        facts.equal(result, weight)


def _channels_back(called: Called, facts: Facts) -> None:
    """A transposed convolution takes as many channels as its weight."""
    data, weight = called.operands
    taken, channels = _along(called, facts, data, "C"), _along(called, facts, weight, "I")
    for each in (taken, channels):
        if each is not None:
            _divide(facts, each, called.attribute("groups"))
    if taken is not None and channels is not None:
        facts.equal(taken, channels)


def _made_back(called: Called, facts: Facts) -> None:
    """A transposed convolution gives the channels of its weight in each group."""
    weight, result = _along(called, facts, called.operands[1], "O"), _of_result(called, facts, "C")
    if weight is None or result is None:
        return
    groups, made = facts.of(called.attribute("groups")).only(), facts.of(weight).only()
    if isinstance(groups, int):
        equate(facts, result, Calculate("*", weight, Constant(groups)))
    elif isinstance(made, int) and made > 0:
        facts.narrow(result, divided_by(made, 0))


def _padded_back(called: Called, facts: Facts) -> None:
    """What is added at the end of each axis is less than the stride there."""
    padding, strides = (called.attribute(name) for name in ("output_padding", "strides"))
    lengths = [read_length(operators()[op], "strides") or 0 for op in called.call.ops]
    for at in range(min(lengths)):
        more, stride = Item(padding, at), Item(strides, at)
        facts.narrow(stride, between(facts.of(more).bounds()[0] + 1, inf))
        facts.narrow(more, between(-inf, facts.of(stride).bounds()[1] - 1))


def _kept(letters: str) -> Callable[[Called, Facts], None]:
    def kept(called: Called, facts: Facts) -> None:
        for letter in letters:
            taken = _along(called, facts, called.operands[0], letter)
            given = _of_result(called, facts, letter)
            if taken is not None and given is not None:
                facts.equal(taken, given)

    return kept


def _sampled(called: Called, facts: Facts) -> None:
    """The result has the layout, the batch and the channels of the data."""
    layout = _known(facts, called.attribute("layout"))
    for letter in "NC":
        if letter in layout:
            at = layout.index(letter)
            facts.equal(DimAt(called.result, at), DimAt(called.operands[0], at))


def _adapted(called: Called, facts: Facts) -> None:
    sizes = asked_list(called, facts, "output_size")
    letters = _spatial(called, facts)
    if sizes is None or len(sizes) not in (1, len(letters)):
        return
    for letter, size in zip(letters, sizes * len(letters), strict=False):
        if result := _of_result(called, facts, letter):
            facts.narrow(result, one_of((size,)))


def _slid(called: Called, facts: Facts) -> None:
    """A window fits in the padded data, and the result has one value for each place of it."""
    letters = _spatial(called, facts)
    count = len(letters)
    padding = asked_list(called, facts, "padding")
    windows = _windows(called, facts, letters)
    if padding is None and len(windows) == count and _rounds_down(called, facts):
        _slid_by_one(called, facts, letters, windows)
    if padding is None or len(padding) != 2 * count or len(windows) != count:
        return
    if not _rounds_down(called, facts):
        return
    strides, dilation = (asked_list(called, facts, name) for name in ("strides", "dilation"))
    for at, letter in enumerate(letters):
        data = _along(called, facts, called.operands[0], letter)
        result = _of_result(called, facts, letter)
        window = windows[at]
        if data is None:
            continue
        padded = padding[at] + padding[at + count]
        if (weight := _weight_along(called, facts, letter)) and window is None:
            facts.differ(Difference(facts.first(weight), "<=", facts.first(data), padded))
        spread = dilation[at] if dilation is not None and len(dilation) == count else 1
        more = padded - spread * ((window or 1) - 1) - 1
        size = facts.of(data).only()
        left = size + more if isinstance(size, int) else None
        facts.possible &= left is None or left >= 0
        if result is None or not facts.possible:
            continue
        facts.differ(Difference(facts.first(result), "<=", facts.first(data), more + 1))
        stride = strides[at] if strides is not None and len(strides) == count else 1
        if left is not None:
            is_exact = None not in (window, strides, dilation)
            places = left // stride + 1
            facts.narrow(result, between(places if is_exact else 1, places))
        elif stride > 1 and facts.first(result) == facts.first(data):
            facts.narrow(data, between(-inf, (more + stride) // (stride - 1)))


def _slid_by_one(called: Called, facts: Facts, letters: str, windows: Sequence[int | None]) -> None:
    """With strides of 1, the result has what two numbers of `padding` add to the data."""
    count, padding = len(letters), called.attribute("padding")
    asked = Each(padding), *(Item(padding, at) for at in range(2 * count))
    if facts.known.isdisjoint(asked):
        return
    strides, dilation = (asked_list(called, facts, name) for name in ("strides", "dilation"))
    if strides != (1,) * count or dilation is None or len(dilation) != count:
        return
    for at, letter in enumerate(letters):
        data = _along(called, facts, called.operands[0], letter)
        result, window = _of_result(called, facts, letter), windows[at]
        if data is not None and result is not None and window is not None and facts.possible:
            added = Calculate("+", Item(padding, at), Item(padding, at + count))
            padded = Calculate("+", data, added)
            equate(facts, result, Calculate("-", padded, Constant(dilation[at] * (window - 1))))


def _rounds_down(called: Called, facts: Facts) -> bool:
    return called.call.ops[0] in _CONVOLUTIONS or (
        facts.of(called.attribute("ceil_mode")).only() is False
    )


def _windows(called: Called, facts: Facts, letters: str) -> list[int | None]:
    """The size of the window along each letter; None where it is not known."""
    if called.call.ops[0] in _POOLS:
        return [*(asked_list(called, facts, "pool_size") or [None] * len(letters))]
    found: list[int | None] = []
    for letter in letters:
        along = _weight_along(called, facts, letter)
        size = None if along is None else facts.of(along).only()
        found.append(size if isinstance(size, int) else None)
    return found


def _spatial(called: Called, facts: Facts) -> str:
    """The letters of the dimensions over which a window slides, in the order of the attributes."""
    layout = _known(facts, layouts_of(called)[called.operands[0]])
    return "".join(letter for letter in "DHW" if letter in layout)


def _along(called: Called, facts: Facts, name: str, letter: str) -> DimAt | None:
    """The dimension that a letter of a layout means; None if it is not known, or is in blocks."""
    layout = _known(facts, layouts_of(called)[name])
    return DimAt(name, layout.index(letter)) if letter in layout else None


def _weight_along(called: Called, facts: Facts, letter: str) -> DimAt | None:
    is_pool = called.call.ops[0] in _POOLS
    return None if is_pool else _along(called, facts, called.operands[1], letter)


def _of_result(called: Called, facts: Facts, letter: str) -> DimAt | None:
    layout = _known(facts, called.attribute("out_layout"))
    return DimAt(called.result, layout.index(letter)) if letter in layout else None


def _known(facts: Facts, layout: Attr) -> str:
    """A layout that is known and not in blocks; else empty."""
    text = str(facts.of(layout).only() or "")
    return text if text.isupper() else ""


_SLIDES = "{op} slides its window over the padded data, in which it fits"
image_relations = table(
    (
        _CONVOLUTIONS,
        Relation("{op} takes the channels that its weight is for, in each group", again=_channels),
    ),
    (
        _CONVOLUTIONS,
        Relation("{op} gives the channels of its weight, equally many in a group", again=_made),
    ),
    (_TRANSPOSED, Relation("{op} takes the channels that its weight is for", again=_channels_back)),
    (
        _TRANSPOSED,
        Relation("{op} gives the channels of its weight, in each group", again=_made_back),
    ),
    (
        _TRANSPOSED,
        Relation(
            "{op} takes an `output_padding` that is less than its strides", again=_padded_back
        ),
    ),
    (_CONVOLUTIONS | _TRANSPOSED, Relation("{op} keeps the batch", again=_kept("N"))),
    (_POOLS | _ADAPTIVE, Relation("{op} keeps the batch and the channels", again=_kept("NC"))),
    (
        {"image.grid_sample"},
        Relation("{op} keeps the batch and the channels", again=_sampled),
    ),
    (_ADAPTIVE, Relation("{op} gives what `output_size` says", again=_adapted)),
    (_CONVOLUTIONS, Relation(_SLIDES, again=_slid)),
    (_POOLS, Relation(_SLIDES, again=_slid)),
)
