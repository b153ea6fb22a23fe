"""The dtypes that operators give: those of their operands, of an attribute, or always the same."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, combinations, pairwise
from math import floor, isinf

from collage_dsl.graph import Kind
from collage_dsl.graph.floats import FORMATS
from collage_dsl.graph.operators import Operator, operators
from collage_dsl.graph.types import dtype_names, long_dtype, short_dtype
from collage_dsl.language.messages.findings import listed
from collage_dsl.language.reasoning.claims.list_values import is_none
from collage_dsl.language.reasoning.claims.relations import Claim, Relation
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.values.domain import between, one_of
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.language.reasoning.values.knowing import order_elements
from collage_dsl.language.reasoning.values.numbers import elements, rounding
from collage_dsl.language.reasoning.values.shown_values import MOST_SHOWN
from collage_dsl.rules.condition import Dtype, Has, ValueOf
from collage_dsl.rules.flattening import Together, together
from collage_dsl.rules.pattern import Number

_MULTIPLYING = frozenset(
    {"matmul", *(f"nn.conv{rank}d{sort}" for rank in (1, 2, 3) for sort in ("", "_transpose"))}
)
"""Operators that take two dtypes where an attribute says that of the result."""

_LOSSES = frozenset({"nn.cross_entropy_with_logits", "nn.nll_loss"})


def dtype_relations(ops: tuple[str, ...]) -> Iterator[Relation]:
    yield from _accepting(ops)
    known = [operators()[op] for op in ops]
    agreeing = {_agreeing(operator) for operator in known}
    if len(agreeing) == 1 and agreeing != {()}:
        places = agreeing.pop()
        said = "the tensors that {op} takes have one dtype"
        if any(map(_goes_with_bool, known)):
            said += ", except those that are `bool`"
            yield Relation(said, again=partial(_agree, places), asks="dtypes", if_absent=True)
        else:
            yield Relation(said, once=partial(_agree_always, places))
    if all(op in _MULTIPLYING for op in ops):
        said = "the tensors that {op} takes have one dtype, unless `out_dtype` says another one"
        yield Relation(said, again=_agree_unless_said, asks="dtypes")
    for result in range(max(len(operator.dtypes) for operator in known)):
        if dtypes := given_dtypes(ops, result):
            listed = " or ".join(f"`{dtype}`" for dtype in dtypes)
            yield Relation(f"{{op}} gives {listed}", once=partial(_constant, result, dtypes))
        followed = {_followed(operator, result) for operator in known}
        if len(followed) == 1 and None not in followed:
            yield from _following(known[0], result)
            yield from _without_attribute(known, result)
    if set(ops) == {"bucketize"}:
        yield Relation(
            "{op} gives `i64`, or `i32` with `out_int32`", again=_bucketized, asks="dtypes"
        )
    if set(ops) == {"topk"}:
        said = "{op} gives values of the dtype of what it takes, indices of that in `dtype`"
        yield Relation(said, again=_ranked, asks="dtypes")
    if set(ops) == {"vision.non_max_suppression"}:
        said = "{op} gives `i32`, or the boxes that it takes if `return_indices` is `false`"
        yield Relation(said, again=_suppressed, asks="dtypes")
    if set(ops) == {"vision.all_class_non_max_suppression"}:
        said = "{op} gives `i64`, and scores of `f32` in the format of `tensorflow`"
        yield Relation(said, again=_suppressed_by_class, asks="dtypes")


def _accepting(ops: tuple[str, ...]) -> Iterator[Relation]:
    """What TVM refuses other dtypes for: operands by their place, and attributes."""
    known = [operators()[op] for op in ops]
    for at, name in enumerate(known[0].operands or ()):
        accepted = [_accepted(operator, at) for operator in known]
        if all(accepted):
            dtypes = tuple(dict.fromkeys(chain.from_iterable(accepted)))
            said = _says_accepted(name, at, dtypes)
            yield Relation(said, once=partial(_takes_only, at, dtypes))
    for attribute in known[0].attrs:
        accepted = [operator.accepts.get(f"[{attribute}]", ()) for operator in known]
        if all(accepted):
            dtypes = tuple(dict.fromkeys(chain.from_iterable(accepted)))
            said = f"`{attribute}` of {{op}} is {listed(dtypes)}"
            yield Relation(said, once=partial(_says_only, attribute, dtypes))


def _accepted(operator: Operator, at: int) -> tuple[str, ...]:
    """The dtypes that an operand may have; none if it may have any, or if there is none."""
    names = (operator.operands or ())[at : at + 1]
    return operator.accepts.get(names[0], ()) if names else ()


def _says_accepted(name: str, at: int, dtypes: tuple[str, ...]) -> str:
    whole = [dtype for dtype in dtypes if dtype[0] in "iu"]
    if dtypes == ("bool",):
        return f"the {name} of {{op}} is `bool`: compare, as `greater` does"
    if len(whole) > 2 and set(dtypes) - {*whole} == {"bool"}:
        return "{op} takes whole numbers, such as `i64`, and `bool`"
    if len(dtypes) == len(whole) > 2:
        return f"the {name} of {{op}} are whole numbers, such as `i64`"
    return f"{{op}} takes {listed(dtypes)}{f' for `{name}`' if at else ''}"


def number_claims(called: Sequence[Called]) -> Iterator[Claim]:
    """A number that is written for a tensor is one of its dtype."""
    for each in called:
        known = [] if each.call.kinds else [operators()[op] for op in each.call.ops]
        for at, name in enumerate(each.operands):
            is_tensor = known and all(
                op.takes[at : at + 1] in (("tensor",), ("any",)) for op in known
            )
            if is_tensor and (number := each.names.numbers.get(name)):
                said = (
                    f"{{op}} takes the number {number.value:g}, of the dtype of the other operand"
                )
                yield Claim(Relation(said, again=partial(_is_number, at, number), asks="all"), each)


def _is_number(at: int, number: Number, called: Called, facts: Facts) -> None:
    beyond = rounding(number.value, facts.of(Dtype(called.operands[at])).allowed)
    beyond += abs(number.value) * number.tolerance * 2 if number.tolerance else 0
    numbers = between(number.value - beyond, number.value + beyond)
    order_elements(facts, ValueOf(called.operands[at]))
    facts.narrow(ValueOf(called.operands[at]), numbers)
    dtypes = facts.of(Dtype(called.operands[at])).allowed
    others = [facts.of(Dtype(o)).allowed for i, o in enumerate(called.operands) if i != at]
    said = {d for d in dtypes or () if any(other is None or d in other for other in others)}
    if dtypes and 0 < len(said) <= MOST_SHOWN and elements(numbers, dtypes).is_empty:
        named = listed(sorted(map(str, said)), "or")
        facts.mismatch = f"no element of dtype {named} is the number {number.value:g}"


def total_claims(flat: Sequence[Called]) -> Iterator[Claim]:
    """
    The numbers of a flat call make a whole number, unless its dtype has fractions; that of a
    maximum or minimum is one of them, so its dtype has it.
    """
    for each in flat:
        tree = each.names.trees.get(each.result)
        if tree is None:
            continue
        total = together(tree)
        if not _may_be_whole(total):
            said = f"no whole numbers make {total.number:g} in {{op}}"
            yield Claim(Relation(said, once=_has_fractions), each)
        elif tree.op in ("maximum", "minimum") and not isinf(total.number):
            said = f"one of the numbers in {{op}} is {total.number:g}, of the dtype of the result"
            yield Claim(Relation(said, once=partial(_has_number, total)), each)


def _may_be_whole(total: Together) -> bool:
    beyond = total.tolerance * abs(total.number)
    return isinf(total.number) or floor(total.number + beyond) >= total.number - beyond


def _has_number(total: Together, called: Called, facts: Facts) -> None:
    beyond = total.tolerance * abs(total.number) + 0.5  # as far as whole numbers are rounded
    near = between(total.number - beyond, total.number + beyond)
    having = [
        d for d in dtype_names() if d[0] not in "iu" or not elements(near, frozenset({d})).is_empty
    ]
    facts.narrow(Dtype(called.result), one_of(having))


def _has_fractions(called: Called, facts: Facts) -> None:
    facts.narrow(Dtype(called.result), one_of(_FRACTIONAL))


_FRACTIONAL = frozenset(
    dtype for dtype in dtype_names() if long_dtype(dtype) in {*FORMATS, "float64"}
)


def _takes_only(at: int, dtypes: tuple[str, ...], called: Called, facts: Facts) -> None:
    if at < len(called.operands):
        for name in called.tensors(at):
            facts.narrow(Dtype(name), one_of(dtypes))


def _says_only(attribute: str, dtypes: tuple[str, ...], called: Called, facts: Facts) -> None:
    facts.narrow(called.attribute(attribute), one_of(dtypes))


def _agreeing(operator: Operator) -> tuple[int, ...]:
    """The places of the operands of `operator` that have one dtype."""
    return tuple(map((operator.operands or ()).index, operator.same_dtype))


def _dtype(operator: Operator, result: int) -> str | None:
    """What the dtype of a result follows from. Operators that give many tensors give equal ones."""
    if result < len(operator.dtypes):
        return operator.dtypes[result]
    return operator.dtypes[0] if operator.gives is None and set(operator.dtypes) else None


def _is_constant(operator: Operator, result: int) -> bool:
    dtype = _dtype(operator, result)
    return dtype is not None and dtype[0] != "[" and dtype not in (operator.operands or ())


def given_dtypes(ops: tuple[str, ...], result: int = 0) -> list[str]:
    """The dtypes of a result of `ops`, if nothing else decides them; empty if something does."""
    known = [operators()[op] for op in ops]
    if not all(_is_constant(operator, result) for operator in known):
        return []
    return sorted({short_dtype(str(_dtype(operator, result))) for operator in known})


def _followed(operator: Operator, result: int) -> str | int | None:
    """The attribute that says the dtype, or the place of the operand that has the same one."""
    dtype = _dtype(operator, result)
    if dtype is None or _is_constant(operator, result):
        return None
    return dtype if dtype[0] == "[" else (operator.operands or ()).index(dtype)


def _following(operator: Operator, result: int) -> Iterator[Relation]:
    match _followed(operator, result):
        case str() as attribute:
            name = attribute.strip("[]")
            said = f"{{op}} gives the dtype that `{name}` says"
            yield Relation(said, once=partial(_asked, result, name))
        case int() as place:
            said = "{op} gives the dtype of what it takes"
            if gives_either_dtype(operator.name) and place in _agreeing(operator):
                once, again, if_absent = None, partial(_unless_bool, result, place), True
            else:
                once, again, if_absent = partial(_same, result, place), None, place == 0
            yield Relation(said, once, again, if_absent, is_plain=True, asks="dtypes")


def gives_either_dtype(op: str) -> bool:
    """Whether `op` also takes `bool` beside another dtype, in any order, and gives the first."""
    operator = operators()[op]
    return operator.commutative and operator.kind is Kind.BROADCAST and operator.dtypes == ("x1",)


def _without_attribute(known: list[Operator], result: int) -> Iterator[Relation]:
    """What holds if the attribute that says the dtype is `none`."""
    name, *others = {str(_dtype(operator, result)).strip("[]") for operator in known}
    places = {_first_tensor(operator) for operator in known}
    if others or len(places) > 1 or not all(name in operator.may_be_none for operator in known):
        return
    place = places.pop()
    if place is None:
        yield Relation(
            f"`{name}` of {{op}} is a dtype", again=partial(_refused_without, name), asks="dtypes"
        )
    else:
        said = f"{{op}} gives the dtype of the tensor that it takes, if `{name}` is `none`"
        yield Relation(said, again=partial(_same_without, name, result, place), asks="dtypes")


def _first_tensor(operator: Operator) -> int | None:
    return operator.takes.index("tensor") if "tensor" in operator.takes else None


def _refused_without(attribute: str, called: Called, facts: Facts) -> None:
    facts.possible &= not is_none(called, facts, attribute)


def _same_without(attribute: str, result: int, place: int, called: Called, facts: Facts) -> None:
    if is_none(called, facts, attribute):
        _same(result, place, called, facts)


def _bucketized(called: Called, facts: Facts) -> None:
    is_short = facts.of(called.attribute("out_int32"))
    dtypes = [dtype for dtype, short in (("i32", True), ("i64", False)) if short in is_short]
    facts.narrow(Dtype(called.result), one_of(dtypes))


def _ranked(called: Called, facts: Facts) -> None:
    """Only a call that gives both, values and then indices, has fields."""
    if called.result in called.names.fields:
        _same(0, 0, called, facts)
        return
    match facts.of(called.attribute("ret_type")).only():
        case "values":
            _same(0, 0, called, facts)
        case "indices":
            _asked(0, "dtype", called, facts)


def _suppressed(called: Called, facts: Facts) -> None:
    """Only a call that gives indices has fields."""
    if called.result in called.names.fields:
        _constant(0, ["i32"], called, facts)
    elif facts.of(called.attribute("return_indices")).only() is False:
        _same(0, 0, called, facts)


def _suppressed_by_class(called: Called, facts: Facts) -> None:
    """The second result is the number of boxes, or their scores if there is a third one."""
    format_ = facts.of(called.attribute("output_format"))
    if 2 in called.results or "onnx" not in format_:
        _constant(1, ["f32"], called, facts)
    elif format_.only() == "onnx":
        _constant(1, ["i64"], called, facts)


def _constant(result: int, dtypes: list[str], called: Called, facts: Facts) -> None:
    if name := called.results.get(result):
        facts.narrow(Dtype(name), one_of(dtypes))


def _asked(result: int, attribute: str, called: Called, facts: Facts) -> None:
    if name := called.results.get(result):
        facts.equal(Dtype(name), called.attribute(attribute))


def _same(result: int, place: int, called: Called, facts: Facts) -> None:
    if (name := called.results.get(result)) and place < len(called.operands):
        for operand in called.tensors(place):
            facts.equal(Dtype(name), Dtype(operand))


def _unless_bool(result: int, place: int, called: Called, facts: Facts) -> None:
    """
    Like `_same`, for commutative operators, which also take `bool` beside another dtype. Then the
    result has the dtype of what the graph has first, which the pattern may have second.
    """
    is_one = len({facts.first(Dtype(operand)) for operand in called.operands}) == 1
    is_first = called.call.ordered or all(_is_no_bool(each, facts) for each in called.operands)
    if (name := called.results.get(result)) and (is_one or is_first):
        facts.equal(Dtype(name), Dtype(called.operands[place]))


def _goes_with_bool(operator: Operator) -> bool:
    """Whether TVM lets a call of `operator` take `bool` beside another dtype."""
    return operator.kind is Kind.BROADCAST or operator.name in _LOSSES


def _agree_always(places: tuple[int, ...], called: Called, facts: Facts) -> None:
    known = [place for place in places if place < len(called.operands)]
    for one, other in pairwise(name for place in known for name in called.tensors(place)):
        facts.equal(Dtype(one), Dtype(other))


def _agree(places: tuple[int, ...], called: Called, facts: Facts) -> None:
    known = [place for place in places if place < len(called.operands)]
    tensors = [name for place in known for name in called.tensors(place)]
    is_bool = {facts.of(Dtype(name)).only() for name in tensors} == {"bool"}
    if called.call.optional:
        tensors = tensors[:1]
    if operators()[called.call.ops[0]].gives == "tensor":
        tensors.append(called.result)
        if is_bool:
            facts.narrow(Dtype(called.result), one_of(("bool",)))
    no_bool = [name for name in tensors if _is_no_bool(name, facts)]
    for one, other in combinations(no_bool, 2):
        facts.equal(Dtype(one), Dtype(other))
    dtype = facts.of(Dtype(no_bool[0])).only() if no_bool else None
    for name in tensors if dtype is not None else ():
        facts.narrow(Dtype(name), one_of((dtype, "bool")))


def _agree_unless_said(called: Called, facts: Facts) -> None:
    if facts.of(Has(called.attribute("out_dtype").name)).only() is False:
        _agree((0, 1), called, facts)


def _is_no_bool(name: str, facts: Facts) -> bool:
    return "bool" not in facts.of(Dtype(name))
