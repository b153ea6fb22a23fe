"""Why a part of a pattern does not match at a node, in sentences for an observer."""

from collections.abc import Sequence

from collage_dsl.graph import Form, Kind, Node
from collage_dsl.graph.floats import rounded
from collage_dsl.graph.onnx_node import OnnxNode
from collage_dsl.rules.flattening import COMBINING, Flattened, Together, combined
from collage_dsl.rules.frame import Frame
from collage_dsl.rules.observer import Observer
from collage_dsl.rules.partial import Partial
from collage_dsl.rules.pattern import Call, Flat, Number, Operand, Reference, TupleOfEach
from collage_dsl.source import Span


def refuse(
    observer: Observer, so_far: Partial, because: str, span: Span | None = None, reason: str = ""
) -> tuple[()]:
    """Tell `observer` why there is no match, and return no ways."""
    observer.refused(so_far.size, because, span, reason)
    return ()


def other_number(node: Node, flat: Flat, wanted: Together, way: Flattened) -> str:
    """Why the numbers of a tree are not those of the pattern."""
    noun = COMBINING[flat.op].noun
    if not way.numbers:
        return f"the {noun} `{node.name}` has no number, not {wanted.number:g}"
    found = f"the numbers of the {noun} `{node.name}` make {combined(flat.op, way.numbers):g}"
    return f"{found}, not {wanted.number:g}" if flat.numbers else f"{found}: the pattern has none"


def no_tree(node: Node, flat: Flat) -> str:
    """Why the call of `node` is not part of a tree of the operator of `flat`."""
    noun, count = COMBINING[flat.op].noun, len(flat.values)
    if node.op == flat.op:
        return f"`{node.name}` is no {noun} of {count} value{'' if count == 1 else 's'} and numbers"
    return f"`{node.name}` is {what(node)}, not a {noun}"


def number_refusal(wanted: Number, node: Node) -> str:
    """Why `node` is not the number that is wanted, in each element; empty if it is."""
    if node.form is Form.CONSTANT and node.value is not None:
        values = node.value.ravel().tolist()  # type: ignore[attr-defined]
    elif node.form is Form.LITERAL and isinstance(node.value, int | float):
        values = [node.value]
    elif node.form is Form.CONSTANT:
        return f"the value of `{node.name}` is not known"
    else:
        return f"`{node.name}` is not a constant"
    number = rounded(wanted.value, getattr(node.type, "dtype", "float32"))
    allowed = wanted.tolerance * abs(wanted.value)
    others = (v for v in values if not (v == number or abs(v - wanted.value) <= allowed))
    other = next(others, None)
    if other is None:
        return ""
    which = "" if len(values) == 1 else "an element of "
    return f"{which}`{node.name}` is {_other_than_number(other, wanted)}"


def _other_than_number(value: float, number: Number) -> str:
    """Like "0.25, not 0.5 within 0.01". Numbers that are near each other have all their digits."""
    found, wanted = f"{value:g}", f"{number.value:g}"
    if found == wanted:
        found, wanted = repr(value), repr(number.value)
    within = f" within {number.tolerance:g}" if number.tolerance else ""
    return f"{found}, not {wanted}{within}"


def _is_of(kinds: tuple[Kind, ...], node: Node) -> bool:
    """Whether `node` is a call of one of `kinds`."""
    return node.kind in kinds and node.form is Form.CALL


def is_called(call: Call, node: Node) -> bool:
    """Whether `node` is a call of one of the operators or kinds of `call`."""
    return node.op in call.ops or bool(call.kinds and _is_of(call.kinds, node))


def may_be(frame: Frame, operand: Operand, node: Node) -> bool:
    """Whether `node` is a call of the operator of `operand`, if that is the call of one."""
    while isinstance(operand, Reference) and operand.name in frame.values:
        operand = frame.values[operand.name]
    return not isinstance(operand, Call) or operand.optional or is_called(operand, node)


def calls_of_others(choices: Sequence[Operand], node: Node) -> list[Call]:
    """The `choices`, if each of them is a call of other operators than that of `node`."""
    calls = [each for each in choices if isinstance(each, Call) and not each.optional]
    is_one = len(calls) < len(choices) or any(is_called(call, node) for call in calls)
    return [] if is_one else calls


def other_than(call: Call, node: Node) -> str:
    if is_called(call, node):
        return _other_count(node, len(call.operands))
    kind = f", which is {node.kind}" if call.kinds and node.form is Form.CALL else ""
    return f"is {what(node)}{kind}, not {' | '.join(call.names)}"


def _other_count(node: Node, wanted: int) -> str:
    """Like "has 1 operand, not 3"."""
    given = len(node.inputs)
    said = f"has {given} operand{'' if given == 1 else 's'}, not {wanted}"
    if isinstance(node.value, OnnxNode) and given < wanted:
        return f"{said}: operands that the node leaves out, and constants of texts, are not counted"
    return said


def counts(wanted: TupleOfEach) -> str:
    """How many fields are wanted: `2`, `2 to 8`."""
    least, most = wanted.least, wanted.most
    return str(least) if least == most else f"{least} to {most}"


def what(node: Node) -> str:
    match node.form:
        case Form.CALL:
            return f"a call of {node.op}"
        case Form.TUPLE:
            return f"a tuple of {len(node.inputs)}"
        case Form.PROJECTION:
            return f"field {node.value} of a tuple"
        case Form.INPUT:
            return "an input"
        case form:
            return f"a {form.value}"
