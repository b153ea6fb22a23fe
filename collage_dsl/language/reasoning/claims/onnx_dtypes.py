"""The dtypes that operators of ONNX give and take where a node has all results or operands."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import pairwise

from collage_dsl.graph.operators import Operator, operators
from collage_dsl.language.messages.findings import listed
from collage_dsl.language.reasoning.claims.list_values import is_none
from collage_dsl.language.reasoning.claims.onnx_results import results_of_onnx
from collage_dsl.language.reasoning.claims.relations import Relation
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.values.domain import one_of
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.language.reasoning.values.numbers import widths_of
from collage_dsl.rules.condition import Attr, Dtype, Has, Value

DTYPES_BY_CODE: Mapping[Value, str] = {
    **dict(enumerate(("f32", "u8", "i8", "u16", "i16", "i32", "i64"), 1)),
    **dict(enumerate(("bool", "f16", "f64", "u32", "u64"), 9)),
    **dict(enumerate(("bf16", "f8_e4m3fn", "f8_e4m3fnuz", "f8_e5m2", "f8_e5m2fnuz"), 16)),
    **dict(enumerate(("u4", "i4", "f4_e2m1fn", "f8_e8m0fnu", "u2", "i2"), 21)),
}
"""The dtypes by the numbers that ONNX has for them; those of texts and of complex ones lack."""

_BY_CODE = {
    **dict.fromkeys(("onnx.BitCast", "onnx.Cast", "com.microsoft.DequantizeWithOrder"), "to"),
    **{f"onnx.{sort}Window": "output_datatype" for sort in ("Blackman", "Hamming", "Hann")},
    "onnx.MelWeightMatrix": "output_datatype",
    "onnx.Multinomial": "dtype",
    **{f"com.microsoft.{op}": "dtype" for op in ("DequantizeBFP", "GemmFloat8")},
}
"""The attribute that says the dtype of the result as a number."""

_WITH_TEXTS: Mapping[str, tuple[int, ...]] = {"onnx.Cast": (8,)}
"""The numbers of dtypes that tensors of models do not have, by the operators that may give them."""

_REINTERPRETING = frozenset({"onnx.BitCast"})
"""Operators that give the same bits as elements of another dtype."""

_BY_CODE_OR_FIRST = frozenset(
    {f"onnx.{op}" for op in ("Bernoulli", "EyeLike", "RandomNormalLike", "RandomUniformLike")}
)
"""Operators whose result has the dtype of the first operand, unless `dtype` has a number."""

_BY_SCALE = frozenset({"onnx.DequantizeLinear"})
"""Operators that give the dtype of their scale, unless `output_dtype` has a number."""

_BY_ZERO_POINT = frozenset({"onnx.QuantizeLinear", "com.microsoft.QuantizeLinear"})
"""Operators whose third operand has the dtype of the result."""


_WITH_MASK = frozenset({"onnx.Dropout"})
"""Operators that give a mask as second result, of `bool` if they take more than the data."""


def onnx_dtype_relations(ops: tuple[str, ...]) -> Iterator[Relation]:
    operator = operators()[ops[0]]
    if len(ops) > 1:
        return
    for at, name in enumerate(operator.operands or ()):
        if dtypes := operator.accepts_all.get(name):
            said = f"{{op}} takes {listed(dtypes)} for `{name}`"
            yield Relation(said, once=partial(_takes, operator, at, dtypes))
    for group in operator.same_dtypes:
        shown = (
            listed(group, "and")
            if len(group) < 5
            else f"{', '.join(f'`{each}`' for each in group[:3])} and others"
        )
        said = f"{{op}} takes one dtype for {shown}"
        yield Relation(said, again=partial(_agree_in_group, operator, group), asks="dtypes")
    for result, dtype in enumerate(operator.fields):
        if dtype is not None:
            said = _says_given(operator, result, dtype)
            yield Relation(said, once=partial(_gives, operator, result, dtype))
    if len(operator.fields) > 1 and all(operator.fields):
        said = f"a node of {{op}} has only the results that are used, of {_listed(operator)}"
        yield Relation(said, again=partial(_gives_some, operator), asks="dtypes")
    if ops[0] in _WITH_MASK:
        said = "{op} gives a mask of `bool`, if it takes a `ratio`"
        yield Relation(said, once=_gives_mask)
    if attribute := _BY_CODE.get(ops[0]):
        said = f"{{op}} gives the dtype whose number in ONNX is `{attribute}`"
        yield Relation(said, again=partial(_gives_by_code, attribute), asks="dtypes")
    if ops[0] in _REINTERPRETING:
        said = "{op} gives a dtype whose elements are as wide as those that it takes"
        yield Relation(said, again=_keeps_width, asks="dtypes")
    if ops[0] in _BY_CODE_OR_FIRST:
        said = "{op} gives the dtype of what it takes, unless `dtype` says another one"
        yield Relation(said, again=_gives_by_code_or_that_of_first, asks="dtypes")
    if ops[0] in _BY_SCALE:
        said = "{op} gives the dtype of its scale, unless `output_dtype` says another one"
        yield Relation(said, again=_gives_that_of_scale, asks="dtypes")
    if ops[0] in _BY_ZERO_POINT:
        yield Relation("{op} gives the dtype of its zero point", once=_gives_that_of_zero_point)
        said = "{op} gives `u8` without a zero point, unless `output_dtype` says another one"
        yield Relation(said, again=_gives_without_zero_point, asks="dtypes")


def _listed(operator: Operator) -> str:
    """Words for the dtypes of all results, in order."""
    named = [
        f"the dtype of `{each}`"
        if each in (operator.operands or ())
        else listed((each,) if isinstance(each, str) else each or ())
        for each in operator.fields
    ]
    return ", ".join(named[:-1]) + f" and {named[-1]}"


def _says_given(operator: Operator, result: int, dtype: str | tuple[str, ...]) -> str:
    what = f" as result {result}" if len(operator.fields) > 1 else ""
    if dtype in (operator.operands or ()):
        return f"{{op}} gives the dtype of `{dtype}`{what}"
    return f"{{op}} gives {listed((dtype,) if isinstance(dtype, str) else dtype)}{what}"


def _takes(
    operator: Operator, at: int, dtypes: tuple[str, ...], called: Called, facts: Facts
) -> None:
    if len(called.operands) == len(operator.operands or ()):
        facts.narrow(Dtype(called.operands[at]), one_of(dtypes))


def _agree_in_group(
    operator: Operator, group: tuple[str, ...], called: Called, facts: Facts
) -> None:
    """
    Add that operands of `group` have one dtype. Where a node leaves some operands out, the place of
    an operand does not say which it is: it has the dtype of one of those that it may be.
    """
    places = list(_places(operator, called))
    found = zip(called.operands, places, strict=True)
    sure = [name for name, (first, *others) in found if first in group and not others]
    for one, other in pairwise(sure):
        facts.equal(Dtype(one), Dtype(other))
    known = facts.of(Dtype(sure[0])).allowed if sure else None
    for name, possible in zip(called.operands, places, strict=True):
        if len(possible) > 1 and not set(group).isdisjoint(possible):
            dtypes = [
                known if each in group else operator.accepts_all.get(each) for each in possible
            ]
            if all(dtypes):
                facts.narrow(Dtype(name), one_of(dtype for each in dtypes for dtype in each or ()))


def _places(operator: Operator, called: Called) -> Iterator[tuple[str, ...]]:
    """The operands of the definition that each operand of a call may be."""
    named = operator.operands or ()
    absent = len(named) - len(called.operands)
    for at in range(len(called.operands)):
        yield named[at : at + 1 if at < operator.always else at + absent + 1]


def _gives(
    operator: Operator, result: int, dtype: str | tuple[str, ...], called: Called, facts: Facts
) -> None:
    names = [
        name for name, places in results_of_onnx(called) if places == range(result, result + 1)
    ]
    for name in names:
        if (operand := _operand(operator, dtype, called)) is not None:
            facts.equal(Dtype(name), operand)
        else:
            facts.narrow(Dtype(name), one_of((dtype,) if isinstance(dtype, str) else dtype))


def _operand(
    operator: Operator, dtype: str | tuple[str, ...] | None, called: Called
) -> Dtype | None:
    """The dtype of an operand, if `dtype` names it."""
    named = operator.operands or ()
    return Dtype(called.operands[named.index(dtype)]) if dtype in named else None


def _gives_some(operator: Operator, called: Called, facts: Facts) -> None:
    """Narrow each result that may be one of several to the dtypes of these."""
    for name, places in results_of_onnx(called):
        known = [_dtypes(operator, at, called, facts) for at in places if at < len(operator.fields)]
        if len(places) == len(known) > 1 and all(known):
            facts.narrow(Dtype(name), one_of(dtype for each in known for dtype in each))


def _dtypes(operator: Operator, result: int, called: Called, facts: Facts) -> Iterable[Value]:
    """The dtypes that a result may have; empty if they are not known."""
    dtype = operator.fields[result]
    if (operand := _operand(operator, dtype, called)) is not None:
        return facts.of(operand).allowed or ()
    return (dtype,) if isinstance(dtype, str) else dtype or ()


def _gives_mask(called: Called, facts: Facts) -> None:
    if len(called.operands) > 1 and (mask := called.results.get(1)):
        facts.narrow(Dtype(mask), one_of(("bool",)))


def _gives_by_code(attribute: str, called: Called, facts: Facts) -> None:
    code, dtype = called.attribute(attribute), Dtype(called.result)
    numbers = facts.of(code).allowed
    if numbers is not None and all(number in DTYPES_BY_CODE for number in numbers):
        facts.narrow(dtype, one_of(DTYPES_BY_CODE[number] for number in numbers))
    others = _WITH_TEXTS.get(called.call.ops[0], ()) if facts.of(dtype).only() is None else ()
    _narrow_code(facts, code, dtype, others)


def _narrow_code(facts: Facts, code: Attr, dtype: Dtype, others: Iterable[int] = ()) -> None:
    """Narrow the number of a dtype to those that `dtype` may be, and `others`."""
    if (known := facts.of(dtype).allowed) is not None:
        numbers = (number for number, each in DTYPES_BY_CODE.items() if each in known)
        facts.narrow(code, one_of((*numbers, *others)))


def _keeps_width(called: Called, facts: Facts) -> None:
    taken, given = Dtype(called.operands[0]), Dtype(called.result)
    for one, other in ((taken, given), (given, taken)):
        widths, dtypes = widths_of(facts.of(one)), facts.of(other).allowed
        if widths and dtypes is not None:
            as_wide = (each for each in dtypes if widths_of(one_of((each,))) <= widths)
            facts.narrow(other, one_of(as_wide))


def _gives_by_code_or_that_of_first(called: Called, facts: Facts) -> None:
    if is_none(called, facts, "dtype"):
        facts.equal(Dtype(called.result), Dtype(called.operands[0]))
    elif facts.of(Has(called.attribute("dtype").name)).only() is True:
        _gives_by_code("dtype", called, facts)


def _gives_that_of_scale(called: Called, facts: Facts) -> None:
    _narrow_code(facts, called.attribute("output_dtype"), Dtype(called.result), (0,))
    numbers = facts.of(called.attribute("output_dtype")).allowed
    if numbers == frozenset[Value]((0,)):
        facts.equal(Dtype(called.result), Dtype(called.operands[1]))
    elif numbers and all(number in DTYPES_BY_CODE for number in numbers):
        dtypes = one_of(DTYPES_BY_CODE[number] for number in numbers)
        facts.narrow(Dtype(called.result), dtypes)


def _gives_that_of_zero_point(called: Called, facts: Facts) -> None:
    if len(called.operands) == 3:
        facts.equal(Dtype(called.result), Dtype(called.operands[2]))


def _gives_without_zero_point(called: Called, facts: Facts) -> None:
    numbers: Iterable[Value] | None = (0,)
    if "output_dtype" in operators()[called.call.ops[0]].attrs:
        _narrow_code(facts, called.attribute("output_dtype"), Dtype(called.result), (0,))
        numbers = facts.of(called.attribute("output_dtype")).allowed
    if len(called.operands) == 2 and numbers and {0, *DTYPES_BY_CODE}.issuperset(numbers):
        dtypes = one_of(DTYPES_BY_CODE.get(number, "u8") for number in numbers)
        facts.narrow(Dtype(called.result), dtypes)
