"""The graph as far as it is built, and what is known of the rest of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

from collage_dsl.graph import Attribute, Node, TensorType
from collage_dsl.graph.types import short_dtype
from collage_dsl.language.reasoning.values.domain import FALSE, Number, Values, one_of
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.language.reasoning.values.knowing import know
from collage_dsl.language.reasoning.values.terms import Term
from collage_dsl.rules.condition import Attr, DimAt, Dtype, Given, Has, Rank, Value
from collage_dsl.rules.evaluation import evaluate
from collage_dsl.rules.pattern import FieldOf
from collage_dsl.witness.knowledge import Condition, Knowledge
from collage_dsl.witness.ways import Said


class Budget:
    """Counts the steps of a search."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self) -> bool:
        """Count a step; whether it was still allowed."""
        self.left -= 1
        return self.left >= 0


@dataclass(frozen=True, slots=True)
class State:
    """
    `nodes` are those of the first parts; `attributes` those of the calls that are decided. The
    `facts` are never changed: each step has a copy of its own. `said` are the conditions that hold.
    """

    known: Knowledge
    facts: Facts
    said: Said
    budget: Budget
    random: Random | None = None
    """Shuffles alternatives, if there is one."""
    is_empty_allowed: bool = False
    """Whether tensors may have no elements."""
    numbers: tuple[Value, ...] = ()
    """Plain values that conditions name, and the ends of what they leave of dimensions."""
    nodes: tuple[Node, ...] = ()
    attributes: Mapping[int, Mapping[str, Attribute]] = field(default_factory=dict)

    def ordered(self, found: list[Value]) -> list[Value]:
        """
        Alternatives in the order in which they are tried. If there is chance, those that the
        pattern names come first every second time.
        """
        found = list(dict.fromkeys(found))
        if self.random is not None:
            self.random.shuffle(found)
            if self.random.random() < 0.5:
                found.sort(key=lambda value: value not in self.numbers)
        return found

    def room(self, term: Term) -> Number:
        """How many values a term may have: where there are few, it is best to choose first."""
        values = self.facts.of(term)
        if values.allowed is not None:
            return len(values.allowed)
        least, most = values.bounds()
        return (most - least) / values.modulus

    def assuming(self, term: Term, value: Value) -> "State | None":
        """The state in which `term` has a value; None if it cannot have it."""
        return self.narrowed(term, one_of((value,)))

    def narrowed(self, term: Term, values: Values) -> "State | None":
        if not self.budget.spend():
            return None
        facts = self.facts.copy()
        know(facts, term)
        if facts.possible:
            facts.narrow(term, values)
        return self._settled(facts)

    def _settled(self, facts: Facts) -> "State | None":
        found = self.known.settled(facts, self.said) if facts.possible else None
        return None if found is None else replace(self, facts=found)

    def without_value(self, attribute: Attr) -> "State | None":
        """The state in which an attribute is none."""
        facts = self.facts.copy()
        facts.narrow(Has(attribute.name), FALSE)
        return replace(self, facts=facts) if facts.possible else None

    def with_node(self, node: Node) -> "State | None":
        """The state with the node of the next part, if the conditions that are decided hold."""
        at = len(self.nodes)
        found = replace(self, nodes=(*self.nodes, node))
        due = [c for c in self.known.conditions if c.last == at and not c.is_about_the_graph]
        return found if all(map(found.holds, due)) else None

    def holds(self, condition: Condition) -> bool:
        names = self.known.reading.uses[condition.use].names
        bound = {name: self.nodes[at] for name, at in names.items() if at < len(self.nodes)}
        attrs = {} if condition.at is None else self.nodes[condition.at].attrs
        return evaluate(condition.written, Given(bound, attrs)) is True

    def typed(self, name: str, type_: TensorType) -> "State | None":
        """The state in which the value `name` has a type, if it can."""
        is_empty = 0 in (type_.shape or ()) and not self.is_empty_allowed
        if is_empty or not self.budget.spend():
            return None
        facts = self.facts.copy()
        if type_.dtype != "unknown":
            know(facts, Dtype(name))
            facts.narrow(Dtype(name), one_of((short_dtype(type_.dtype),)))
        if type_.shape is not None and facts.possible:
            know(facts, Rank(name))
            facts.narrow(Rank(name), one_of((len(type_.shape),)))
            for axis, dim in enumerate(type_.shape):
                if isinstance(dim, int) and facts.possible:
                    know(facts, DimAt(name, axis))
                    facts.narrow(DimAt(name, axis), one_of((dim,)))
        return self._settled(facts)


def fields_taken(state: State, part: int) -> int:
    """How many results of a call the pattern needs at least, by the fields that it takes of it."""
    parts = state.known.reading.parts
    taken = (p.says.index + 1 for p in parts if isinstance(p.says, FieldOf) and p.of == (part,))
    return max(taken, default=0)
