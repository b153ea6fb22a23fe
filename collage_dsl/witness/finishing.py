"""Make the graph from the nodes of a reading, with names that people read."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from collage_dsl.graph import Form, Graph, Node, TupleType
from collage_dsl.language.graphs.values import with_arrays
from collage_dsl.rules.condition import Uses, every_part
from collage_dsl.witness.literals import operand_name
from collage_dsl.witness.state import State

_MOST_MORE = 4


def graphs(state: State) -> Iterator[Graph]:
    """The graph; where conditions ask about uses, several with more uses of these values."""
    order = _named(state)
    results = tuple(dict.fromkeys(state.known.reading.results))
    asked = sorted(_asked(state))
    for more in product(range(_MOST_MORE), repeat=len(asked)):
        if more and not state.budget.spend():
            return
        nodes, outputs = list(order), list(results)
        for at, count in zip(asked, more, strict=True):
            for _ in range(count):
                outputs.append(len(nodes))
                type_ = TupleType((nodes[at].type,))
                nodes.append(Node(f"other{len(nodes)}", Form.TUPLE, type_, (at,)))
        yield with_arrays(Graph(nodes, outputs, name="graph"))


def _asked(state: State) -> set[int]:
    """The parts whose uses are asked about."""
    found: set[int] = set()
    for condition in state.known.conditions:
        names = state.known.reading.uses[condition.use].names
        asked = (part.of for part in every_part(condition.written) if isinstance(part, Uses))
        found |= {names[name] for name in asked if name in names}
    return found


def _named(state: State) -> list[Node]:
    """The nodes with the names that the pattern has for them, or others."""
    parts = state.known.reading.parts
    taken = {part.name for part in parts}
    names: list[str] = []
    for part, node in zip(parts, state.nodes, strict=True):
        name = part.name if part.name and part.name not in names else ""
        names.append(name or _free(taken, _LETTERS.get(node.form, "v")))
    found = [replace(node, name=name) for node, name in zip(state.nodes, names, strict=True)]
    for user, part in enumerate(parts):
        for place, of in enumerate(part.of):
            if found[of].form is Form.LITERAL:
                found[of] = replace(found[of], name=f"{names[user]}.{operand_name(part.op, place)}")
    return found


_LETTERS = {Form.INPUT: "x", Form.CONSTANT: "w"}


def _free(taken: set[str], letter: str) -> str:
    count = 0
    while f"{letter}{count}" in taken:
        count += 1
    taken.add(f"{letter}{count}")
    return f"{letter}{count}"
