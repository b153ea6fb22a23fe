"""The answers of `collage why` and `collage near`, as JSON documents made from explanations."""

from pydantic import Field

from collage_dsl.graph import Graph, Node, members
from collage_dsl.report.documents import Document, FileName, PlaceDocument
from collage_dsl.report.unknown_sizes import how_to_know
from collage_dsl.rules.explain import (
    Answer,
    Asked,
    Explanation,
    How,
    Refused,
    Step,
    Way,
    explain,
)
from collage_dsl.rules.facts import Fact
from collage_dsl.rules.near import near as nearest
from collage_dsl.rules.near import share_of
from collage_dsl.rules.pattern import Call, Flat, Pattern, PatternCall, Repeat
from collage_dsl.rules.predicate import Lookup, no_host_code
from collage_dsl.rules.written import operand_text, parameter_text
from collage_dsl.source import Span

_DEEPEST = 45
"""The most nested steps: readers of JSON stop at 200 nested brackets, and a step has four."""


class WrittenDocument(PlaceDocument):
    """A part of a spec file, and what is written there."""

    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class NodeDocument(Document):
    """A node of the model: `what` is its operator, or `input`, `constant`, `tuple` and so on."""

    name: str
    what: str
    type: str


class FactDocument(Document):
    """What a condition asks about, and its value; `unknown` says why the value is unknown."""

    of: str
    value: str
    unknown: str


class ConditionDocument(Document):
    """
    A condition, the node it was asked at, and the answer. Conditions after the first that failed
    are asked too, unless they call host code.
    """

    text: str
    message: str = Field(description="what the spec says where it does not hold")
    place: WrittenDocument | None
    node: str
    answer: Answer
    facts: list[FactDocument]
    is_reason: bool


class RefusalDocument(Document):
    """A refusal that does not come from a condition."""

    because: str
    is_reason: bool


class WayDocument(Document):
    """
    One way in which something was tried. `parts`: the operands in the order written. `one more`
    and `no more`: a repeated call continues or ends. `stands for`: the operand that a parameter
    of a called pattern stands for. `pattern`: the results and conditions of the named pattern.
    """

    how: How
    pattern: str | None
    held: bool
    has_reason: bool = Field(description="whether what failed first is in it")
    steps: list["StepDocument"]
    conditions: list[ConditionDocument]
    refusals: list[RefusalDocument]


class StepDocument(Document):
    """What the pattern wanted of a node, and whether it held in one of the `ways`."""

    wanted: str
    optional: bool
    place: WrittenDocument | None
    node: NodeDocument
    held: bool
    has_reason: bool = Field(description="whether what failed first is in it")
    conditions: list[ConditionDocument] = Field(description="those in brackets after the operator")
    refusals: list[RefusalDocument]
    ways: list[WayDocument]


class MatchDocument(Document):
    """The nodes and bound constants of a match, in graph order, and the node of each name."""

    nodes: list[str]
    constants: list[str]
    bound: dict[str, str]


class WhyDocument(Document):
    """
    The answer of `collage why`: the matches at a node, or the first failure after the largest
    part of the pattern had matched. `parts` is the number of parts of the pattern (operators,
    constants, conditions), and `held` how many of them held.
    """

    model: FileName
    pattern: str
    node: NodeDocument
    matches: list[MatchDocument]
    because: str = Field(description="empty where there is a match")
    message: str = Field(description="what the spec says about the condition that failed")
    hint: str = Field(description="how to make an unknown condition known; empty if none is")
    place: WrittenDocument | None
    held: int
    parts: int
    is_complete: bool = Field(description="false where a very long or deep attempt is cut")
    tried: StepDocument

    def __str__(self) -> str:
        from collage_dsl.report.why_text import why_text  # it is about this document

        return why_text(self)


class MissDocument(Document):
    """A node at which a pattern almost matches, and what failed first."""

    node: NodeDocument
    held: int
    parts: int
    because: str
    facts: list[FactDocument]
    message: str
    place: WrittenDocument | None


class NearDocument(Document):
    """
    The answer of `collage near`: the nodes at which a pattern matches, and the nodes without a
    match at which the largest share of it held. The nearest come first, equal ones in graph order.
    """

    model: FileName
    pattern: str
    matched: list[str]
    misses: list[MissDocument]
    hint: str = Field(description="how to make unknown conditions known; empty if none is")
    farther: int = Field(description="nodes at which less held")
    apart: int = Field(description="nodes at which nothing held")

    def __str__(self) -> str:
        from collage_dsl.report.why_text import near_text  # it is about this document

        return near_text(self)


def why(
    pattern: Pattern,
    graph: Graph,
    *,
    at: str,
    model: str | None = None,
    lookup: Lookup = no_host_code,
) -> WhyDocument:
    """
    Why `pattern` does not match at the node `at` of `graph`, or how it matches. `print` shows it.

    `model` is the name to show for the graph. Raises KeyError if there is no such node.
    """
    explanation = explain(pattern, graph, graph.index(at), lookup)
    attempt, share = explanation.attempt, share_of(explanation)
    failed = not explanation.matches
    writer = _Writer(explanation)
    tried = writer.step(explanation.step, pattern.span)
    return WhyDocument(
        model=graph.name if model is None else model,
        pattern=pattern.name,
        node=_node(graph.nodes[explanation.root]),
        matches=[
            MatchDocument(
                nodes=[graph.nodes[i].name for i in members(match.inside)],
                constants=[graph.nodes[i].name for i in members(match.constants)],
                bound={name: graph.nodes[i].name for name, i in sorted(match.bound.items())},
            )
            for match in explanation.matches
        ],
        because=attempt.because if failed else "",
        message=attempt.reason if failed else "",
        hint=how_to_know(graph, _asked(explanation.reason)) if failed else "",
        place=_place(_reason_span(explanation)),
        held=share.held,
        parts=share.of,
        is_complete=explanation.is_complete and not writer.is_cut,
        tried=tried,
    )


def near(
    pattern: Pattern,
    graph: Graph,
    *,
    top: int = 10,
    model: str | None = None,
    lookup: Lookup = no_host_code,
) -> NearDocument:
    """
    The `top` nodes of `graph` without a match at which the largest share of `pattern` holds.
    `print` shows them. `model` is the name to show for the graph.
    """
    found = nearest(pattern, graph, top, lookup)
    return NearDocument(
        model=graph.name if model is None else model,
        pattern=pattern.name,
        matched=[graph.nodes[index].name for index in found.matched],
        misses=[
            MissDocument(
                node=_node(graph.nodes[explanation.root]),
                held=share.held,
                parts=share.of,
                because=explanation.attempt.because,
                facts=_facts(explanation.reason),
                message=explanation.attempt.reason,
                place=_place(_reason_span(explanation)),
            )
            for share, explanation in found.misses
        ],
        hint=how_to_know(graph, (f for _, e in found.misses for f in _asked(e.reason))),
        farther=found.farther,
        apart=found.apart,
    )


class _Writer:
    def __init__(self, explanation: Explanation) -> None:
        self.graph = explanation.graph
        self.reason = explanation.reason
        self.is_cut = False
        self.path = _path(explanation.step, explanation.reason)

    def step(self, step: Step, around: Span | None, depth: int = 0) -> StepDocument:
        """The document of `step`; `around` is its place if it has no place of its own."""
        span = _span(step) or around
        parameter = step.parameter
        ways = step.ways if depth < _DEEPEST else []
        self.is_cut |= len(ways) < len(step.ways)
        optional = parameter.optional if parameter else getattr(step.wanted, "optional", False)
        return StepDocument(
            wanted=_wanted(step),
            optional=optional,
            place=_place(span),
            node=_node(self.graph.nodes[step.node]),
            held=step.held,
            has_reason=step in self.path,
            conditions=[self.condition(asked) for asked in step.asked],
            refusals=[self.refusal(refused) for refused in step.refused],
            ways=[self.way(way, span, depth) for way in ways],
        )

    def way(self, way: Way, around: Span | None, depth: int) -> WayDocument:
        return WayDocument(
            how=way.how,
            pattern=way.pattern.name if way.pattern else None,
            held=way.held,
            has_reason=way in self.path,
            steps=[self.step(step, around, depth + 1) for step in way.steps],
            conditions=[self.condition(asked) for asked in way.asked],
            refusals=[self.refusal(refused) for refused in way.refused],
        )

    def condition(self, asked: Asked) -> ConditionDocument:
        where = asked.where
        return ConditionDocument(
            text=where.span.text if where.span else "",
            message=where.reason or asked.said,
            place=_place(where.span),
            node=self.graph.nodes[asked.node].name,
            answer=asked.answer,
            facts=_facts(asked),
            is_reason=asked is self.reason,
        )

    def refusal(self, refused: Refused) -> RefusalDocument:
        return RefusalDocument(because=refused.because, is_reason=refused is self.reason)


def _path(step: Step, reason: Asked | Refused | None) -> set[Step | Way]:
    """The steps and ways that lead to the reason."""
    if reason is None or reason in step.refused or reason in step.asked:
        return {step} if reason else set()
    for way in step.ways:
        inner = {each for part in way.steps for each in _path(part, reason)}
        if inner or reason in way.refused or reason in way.asked:
            return {step, way, *inner}
    return set()


def _wanted(step: Step) -> str:
    if step.parameter:
        return parameter_text(step.parameter)
    text = operand_text(step.wanted)
    return f"{step.name} = {text}" if step.name and step.name != text else text


def _span(step: Step) -> Span | None:
    match step.wanted:
        case Call() | Flat() | PatternCall() as call:
            return call.span
        case Repeat(call):
            return call.span
        case _:
            return step.parameter.span if step.parameter else None


def _reason_span(explanation: Explanation) -> Span | None:
    """The place of the reason in the file: its own, or the smallest around what was refused."""
    if explanation.matches:
        return None
    if explanation.attempt.span:
        return explanation.attempt.span
    root, path = explanation.step, _path(explanation.step, explanation.reason)
    assert isinstance(root.wanted, PatternCall)
    span, step = root.wanted.pattern.span, root
    while True:
        span = _span(step) or span
        inner = (part for way in step.ways if way in path for part in way.steps if part in path)
        deeper = next(inner, None)
        if deeper is None:
            return span
        step = deeper


def _node(node: Node) -> NodeDocument:
    return NodeDocument(
        name=node.name,
        what=node.op if node.is_call else node.form.value,
        type=str(node.type),
    )


def _facts(record: Asked | Refused | None) -> list[FactDocument]:
    return list(map(_fact, _asked(record)))


def _asked(record: Asked | Refused | None) -> tuple[Fact, ...]:
    return record.facts if isinstance(record, Asked) else ()


def _fact(fact: Fact) -> FactDocument:
    return FactDocument(of=fact.of, value=fact.value, unknown=fact.unknown)


def _place(span: Span | None) -> WrittenDocument | None:
    if span is None:
        return None
    line, column = span.source.position(span.start)
    end_line, end_column = span.source.position(span.end)
    return WrittenDocument(
        file=span.source.name,
        line=line,
        column=column,
        end_line=end_line,
        end_column=end_column,
        text=span.text,
    )
