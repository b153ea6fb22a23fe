"""Warn of fields of ONNX nodes that no model has, because a node has only results that are used."""

from collections.abc import Iterator, Mapping

from collage_dsl.graph.operators import of_onnx, operators
from collage_dsl.language.messages.findings import Findings, listed
from collage_dsl.rules.parts import inner_operands, written_operands
from collage_dsl.rules.pattern import Call, FieldOf, Operand, Pattern, Reference


def check_used_results(pattern: Pattern, findings: Findings) -> None:
    """
    Warn of each call of ONNX operators whose fields are never all those that are used. An imported
    node has only the results that the model uses, and is a tensor if that is one. Where the tuple
    may not be used outside the match, its fields in the match are therefore all that it has.
    """
    for name, call in _closed_nodes(pattern):
        indices = _only_fields(pattern, Reference(name) if name else call)
        if indices and (len(indices) == 1 or max(indices) >= len(indices)):
            _report(call, name, indices, findings)


def _closed_nodes(pattern: Pattern) -> Iterator[tuple[str, Call]]:
    """The calls of nodes that are used only inside the match, each with its name, if it has one."""
    if pattern.taps or of_onnx().isdisjoint(
        op for part in written_operands(pattern) if isinstance(part, Call) for op in part.ops
    ):
        return
    named = {binding.value: binding.name for binding in pattern.bindings}
    for part in written_operands(pattern):
        if isinstance(part, Call) and named.get(part) not in pattern.results and _is_node(part):
            yield named.get(part, ""), part


def _is_node(call: Call) -> bool:
    """Whether this is a call of a node that may have several results, none of them to be shared."""
    if call.shared or call.optional or call.kinds:
        return False
    most: Mapping[str, int | None] = {op: operators()[op].most_results for op in call.ops}
    return of_onnx().issuperset(call.ops) and all(number != 1 for number in most.values())


def _only_fields(pattern: Pattern, node: Operand) -> frozenset[int]:
    """The fields of `node` that the pattern takes; none if it is taken as a whole somewhere."""
    fields: set[int] = set()
    if any(binding.value == node for binding in pattern.bindings if isinstance(node, Reference)):
        return frozenset()
    for part in written_operands(pattern):
        match part:
            case FieldOf(of, index) if of == node:
                fields.add(index)
            case _ if node in inner_operands(part):
                return frozenset()
    return frozenset(fields)


def _report(call: Call, name: str, indices: frozenset[int], findings: Findings) -> None:
    assert call.span is not None
    message = f"models have no field {max(indices)} of this: a node of {listed(call.ops)} has only "
    if len(indices) == 1:
        (index,) = indices
        message += "the results that are used, and is a tensor where that is one"
        hint = f"write `{name}` for `{name}.{index}`" if name else f"remove `.{index}`"
    else:
        message += f"the results that are used, and here {len(indices)} are"
        hint = "fields are counted among the results that are used"
    hint += "; or write `shared` after the call if other results are used outside"
    findings.warning("W0319", call.span, message, hint)
