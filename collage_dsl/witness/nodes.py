"""Make the node of each part of a reading, with its type: inputs are chosen, calls are inferred."""

from collections.abc import Iterator
from itertools import islice

from collage_dsl.graph import Form, Node, OpaqueType, TensorType, TupleType, Type
from collage_dsl.graph.operators import FUNCTION_CALLS, kind_of, literal_values, operators
from collage_dsl.language.graphs.values import constant_values, fits
from collage_dsl.language.inference.infer import infer
from collage_dsl.language.inference.shapes import Call as InferredCall
from collage_dsl.language.inference.shapes import MismatchError
from collage_dsl.language.inference.taken import refused
from collage_dsl.rules.condition import DimAt, Dtype, Rank
from collage_dsl.rules.pattern import Call, FieldOf, ListOf, Number, TupleOf
from collage_dsl.witness.literals import literal_node, literals
from collage_dsl.witness.reading import Part
from collage_dsl.witness.shapes import tensors
from collage_dsl.witness.state import State, fields_taken

_MOST_FILLED = 1 << 12


def nodes(state: State, at: int) -> Iterator[State]:
    """The states in which the part `at`, the next one, has a node."""
    part = state.known.reading.parts[at]
    match part.says:
        case Call():
            yield from _calls(state, at, part, part.says)
        case TupleOf():
            type_: Type = TupleType(tuple(state.nodes[of].type for of in part.of))
            yield from _one(state, Node(_name(at), Form.TUPLE, type_, part.of))
        case FieldOf(_, index):
            of = state.nodes[part.of[0]].type
            if isinstance(of, TupleType) and index < len(of.fields):
                field = of.fields[index]
                yield from _one(
                    state, Node(_name(at), Form.PROJECTION, field, part.of, value=index)
                )
        case Number():
            yield from _numbers(state, at, part.says)
        case ListOf() | None:
            yield from _values(state, at)


def _name(at: int) -> str:
    return f"v{at}"


def _one(state: State, node: Node) -> Iterator[State]:
    found = state.with_node(node)
    if found is not None:
        yield found


# Calls.


def _calls(state: State, at: int, part: Part, call: Call) -> Iterator[State]:
    operands = [state.nodes[of] for of in part.of]
    types = tuple(operand.type for operand in operands)
    values = literal_values(operands)
    attrs = state.attributes[at]
    if refused(operators()[part.op], types):
        return
    try:
        inferred = infer(InferredCall(part.op, types, values, attrs))
    except MismatchError:
        return
    for after, type_ in _results(state, at, part, inferred):
        kind = kind_of(part.op, types, type_, values, attrs)
        if part.op in call.ops or kind in call.kinds:
            yield from _one(after, Node(_name(at), Form.CALL, type_, part.of, part.op, attrs, kind))


def _results(state: State, at: int, part: Part, inferred: Type) -> Iterator[tuple[State, Type]]:
    """The type of a call: the inferred one, or if that is not known, one that is written."""
    name = state.known.name(at)
    if not isinstance(inferred, TensorType):
        after: State | None = state
        for index, field in enumerate(getattr(inferred, "fields", ())):
            named = state.known.fields.get(name, {}).get(index, f"{name}[{index}]")
            if after is not None and isinstance(field, TensorType):
                after = after.typed(named, field)
        if after is not None:
            yield after, inferred
        return
    is_open = inferred.shape is None or inferred.dtype == "unknown"
    if is_open and (_fields_taken(state, at) or not _gives_tensor(part.op)):
        yield from _written_results(state, at, part)
        return
    if not is_open or not (_is_asked(state, name) or part.op in FUNCTION_CALLS):
        after = state.typed(name, inferred)
        if after is not None:
            yield after, inferred
    if is_open:
        has_dtype = inferred.dtype != "unknown" and any(operators()[part.op].dtypes)
        given = state.typed(name, inferred) if has_dtype else state
        if given is not None:
            yield from tensors(given, name)


def _gives_tensor(op: str) -> bool:
    operator = operators().get(op)
    return operator is None or operator.gives in ("tensor", None)


def _fields_taken(state: State, at: int) -> int:
    """How many results a node of ONNX needs if the pattern takes fields of it; 0 if it does not."""
    taken = fields_taken(state, at)
    is_onnx = operators()[state.known.reading.parts[at].op].most_results is not None
    return max(2, taken) if taken and is_onnx else 0


def _written_results(state: State, at: int, part: Part) -> Iterator[tuple[State, Type]]:
    """The results of an operator that gives several, of which nothing is inferred."""
    gives = _fields_taken(state, at) or operators()[part.op].gives
    if not isinstance(gives, int):
        yield state, OpaqueType("shape")
        return
    known = state.known.fields.get(state.known.name(at), {})
    found: list[tuple[State, tuple[Type, ...]]] = [(state, ())]
    for index in range(gives):
        found = [
            (after, (*fields, type_))
            for before, fields in found[:4]
            for after, type_ in _few(tensors(before, known.get(index, f"{_name(at)}[{index}]")))
        ]
    for after, fields in found:
        yield after, TupleType(fields)


def _few(found: Iterator[tuple[State, TensorType]]) -> Iterator[tuple[State, TensorType]]:
    return islice(found, 4)


def _is_asked(state: State, name: str) -> bool:
    """Whether the dtype or the shape of a value matters to a condition."""
    asked = (term.of for term in state.facts.known if isinstance(term, Dtype | Rank | DimAt))
    return name in asked


# Values from outside.


def _values(state: State, at: int) -> Iterator[State]:
    """An input, a constant or a literal, as the calls that take it need."""
    taken = list(_taken(state, at))
    if any(kind in ("list", "number") for _, _, kind in taken):
        if at not in state.known.reading.constants:
            for user, place, _ in taken[:1]:
                for after, node in literals(state, at, user, place):
                    yield from _one(after, node)
        return
    form = Form.CONSTANT if at in state.known.reading.constants else Form.INPUT
    if any(kind == "tuple" for _, _, kind in taken):
        for after, fields in _fields(state, at):
            yield from _one(after, Node(_name(at), form, TupleType(fields)))
        return
    for after, type_ in tensors(state, state.known.name(at)):
        yield from _one(after, Node(_name(at), form, type_))


def _taken(state: State, at: int) -> Iterator[tuple[int, int, str]]:
    """The parts that take part `at`, with the place among their operands, and what they take."""
    for user, part in enumerate(state.known.reading.parts):
        for place, of in enumerate(part.of):
            if of != at:
                continue
            match part.says:
                case Call():
                    takes = operators()[part.op].takes
                    yield user, place, takes[place] if place < len(takes) else "tensor"
                case FieldOf():
                    yield user, place, "tuple"
                case _:
                    yield user, place, "tensor"


def _fields(state: State, at: int) -> Iterator[tuple[State, tuple[Type, ...]]]:
    """The fields of a tuple that comes from outside."""
    name = state.known.name(at)
    named = state.known.fields.get(name, {})
    count = max([2, *(index + 1 for index in named)])
    for first, type_ in tensors(state, named.get(0, f"{name}[0]")):
        found: list[tuple[State, tuple[Type, ...]]] = [(first, (type_,))]
        for index in range(1, count):
            if index in named:
                found = [
                    (after, (*fields, each))
                    for before, fields in found[:4]
                    for after, each in _few(tensors(before, named[index]))
                ]
            else:
                found = [(before, (*fields, type_)) for before, fields in found]
        yield from found


def _numbers(state: State, at: int, number: Number) -> Iterator[State]:
    """A constant, or where a number is written in the program, a literal."""
    for user, place, kind in _taken(state, at):
        if kind in ("number", "list"):
            value = int(number.value) if number.value.is_integer() else number.value
            yield from _one(state, literal_node(state, at, user, place, value))
            return
    for after, type_ in tensors(state, state.known.name(at), is_small=True):
        value = int(number.value) if number.value.is_integer() else number.value
        if type_.is_static and fits(value, type_.dtype) and (type_.size or 0) <= _MOST_FILLED:
            count = type_.size or 0
            value_ = constant_values(type_.dtype, type_.static_shape, [value] * count)
            yield from _one(after, Node(_name(at), Form.CONSTANT, type_, value=value_))
