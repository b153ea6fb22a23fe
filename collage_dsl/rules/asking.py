"""Ask the conditions of a pattern about what it has matched."""

from collections.abc import Sequence

from collage_dsl.graph import Graph, Node, OpSet
from collage_dsl.rules.condition import UNKNOWN, Given, Where, depends_on_facts
from collage_dsl.rules.evaluation import evaluate
from collage_dsl.rules.frame import Frame
from collage_dsl.rules.observer import Observer
from collage_dsl.rules.partial import Partial
from collage_dsl.rules.predicate import Lookup, Predicate, Question
from collage_dsl.rules.refusals import refuse


class Asking:
    """Asks conditions about the nodes of `graph`, and predicates by `lookup`."""

    def __init__(self, graph: Graph, lookup: Lookup) -> None:
        self.graph = graph
        self.lookup = lookup

    def attributes_hold(
        self, wheres: Sequence[Where], index: int, so_far: Partial, observer: Observer
    ) -> bool:
        """Whether those conditions hold that ask only about the attributes of node `index`."""
        wheres = [w for w in wheres if not depends_on_facts(w.condition)]
        given = Given(attrs=self.graph.nodes[index].attrs)
        held = all(self.asks(where, index, given, so_far, observer) for where in wheres)
        observer.settled(wheres, index, given)
        return held

    def holds(self, frame: Frame, partial: Partial, index: int, observer: Observer) -> bool:
        """Whether the parameters of a pattern are matched, and its conditions hold."""
        pattern, start = frame.pattern, len(frame.prefix)
        for parameter in pattern.parameters:
            if not parameter.optional and frame.prefix + parameter.name not in partial.bound:
                refuse(observer, partial, f"nothing was matched by `{parameter.name}`")
                return False
        if not pattern.conditions and not partial.pending:
            return True
        bound = {
            name[start:]: self.graph.nodes[i]
            for name, i in partial.bound.items()
            if name.startswith(frame.prefix)
        }
        world = _World(self.graph, self.lookup, partial.inside, index)
        given = Given(bound, world=world)
        held = all(
            self.asks(where, at, Given(bound, self.graph.nodes[at].attrs, world), partial, observer)
            for prefix, where, at in partial.pending
            if prefix == frame.prefix
        ) and all(self.asks(where, index, given, partial, observer) for where in pattern.conditions)
        observer.settled(pattern.conditions, index, given)
        return held

    def asks(
        self, where: Where, index: int, given: Given, so_far: Partial, observer: Observer
    ) -> bool:
        """Whether a condition on node `index` holds."""
        world, said = given.world, ""
        if world is None:
            held = evaluate(where.condition, given)
        else:
            world.said = ""  # forget the text of an earlier condition, which held anyway
            held = evaluate(where.condition, given)
            said = world.said
        observer.asked(where, index, given, held, said)
        if held is not UNKNOWN and held:
            return True
        node = self.graph.nodes[index]
        written = "a condition" if where.span is None else f"`{where.span.text}`"
        if held is UNKNOWN:
            because = f"{written} is unknown (at `{node.name}`)"
            if where.reason:
                because = f"{where.reason}: unknown at `{node.name}`"
            refuse(observer, so_far, because, where.span)
        else:
            reason = where.reason or said or f"{written} does not hold"
            refuse(observer, so_far, f"{reason} (at `{node.name}`)", where.span, where.reason)
        return False


class _World:
    """What conditions ask about a match, besides its nodes. `said` is the last refusal's text."""

    def __init__(self, graph: Graph, lookup: Lookup, inside: OpSet, root: int) -> None:
        self.graph = graph
        self.lookup = lookup
        self.inside = inside
        self.root = root
        self.said = ""

    def uses(self, node: Node) -> int:
        index = self.graph.index(node.name)
        return self.graph.users_of[index].bit_count() + (self.graph.results >> index & 1)

    def holds(self, predicate: Predicate, operands: tuple[Node | None, ...]) -> bool:
        indexes = (None if node is None else self.graph.index(node.name) for node in operands)
        asked = dict(zip(predicate.parameters, indexes, strict=True))
        self.said = self.lookup(predicate)(Question(self.graph, self.inside, self.root, asked))
        return not self.said
