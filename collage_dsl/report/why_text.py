"""Write the answers of `collage why` and `collage near` as text for people."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from collage_dsl.printable import printable
from collage_dsl.report.why import (
    ConditionDocument,
    FactDocument,
    MatchDocument,
    NearDocument,
    RefusalDocument,
    StepDocument,
    WayDocument,
    WhyDocument,
    WrittenDocument,
)
from collage_dsl.rules.explain import Answer, How

MOST_LINES = 60
"""How many lines of what was tried are shown at most; those nearest to the reason are kept."""

_MOST_NODES = 3
"""At how many nodes a refused further result of a pattern is shown at most."""

_MARKS = {Answer.HELD: "✓", Answer.REFUSED: "✗", Answer.UNKNOWN: "?", Answer.NOT_ASKED: "·"}
_WIDEST = 60
_THE_REASON = "<- the reason"


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of the tree. `place` is the place in the spec; `depth` is the indentation."""

    depth: int
    text: str
    place: str = ""
    node: str = ""
    remark: str = ""
    is_near: bool = False
    """Whether the reason is in this line or directly below it."""


def why_text(document: WhyDocument) -> str:
    """The matches, or why there is none, and a tree of what was tried."""
    node = document.node
    where = f"`{node.name}` ({node.what}, {node.type}) of {document.model}"
    if document.matches:
        head = [f"{document.pattern} matches at {where}"]
        head += [f"  {_match(match)}" for match in document.matches]
    else:
        place = f"{document.place}: " if document.place else ""
        head = [
            f"{document.pattern} does not match at {where}",
            f"  {place}{document.because}",
            *(f"  {fact}" for fact in _facts(_facts_of_reason(document.tried))),
            *([f"  {document.hint}"] if document.hint else []),
            f"  {document.held} of {document.parts} parts held",
        ]
    lines = list(_Writer(document).step(document.tried, 0))
    shown = _nearest(lines)
    left_out = len(lines) - len(shown)
    tail = [f"… {left_out} more lines: the answer as JSON has all"] if left_out else []
    if not document.is_complete:
        tail.append("… the attempt was too long or deep to be shown whole")
    return _text([*head, "", *_columns(shown), *tail])


def near_text(document: NearDocument) -> str:
    """A table of the nodes at which the pattern nearly matches, and what fails there."""
    count = len(document.matched)
    head = f"{document.pattern} matches at {count} node{'s' * (count != 1)} of {document.model}"
    if not document.misses:
        return _text([f"{head}; no part of it holds at another node"])
    rows = []
    for miss in document.misses:
        facts = "; ".join(map(str, _facts(miss.facts)))
        because = miss.because + (f": {facts}" if facts else "")
        rows.append(
            (
                f"{miss.held}/{miss.parts}",
                miss.node.name,
                miss.node.what,
                str(miss.place or ""),
                because,
            )
        )
    table = _aligned([("held", "node", "operator", "where", "why not"), *rows])
    hint = [document.hint] if document.hint else []
    rest = [*hint, *_others(document)]
    return _text([f"{head}; where it nearly does:", "", *table, *([""] if rest else []), *rest])


def _others(document: NearDocument) -> Iterator[str]:
    """How many nodes the table leaves out."""
    if count := document.farther:
        yield f"at {count} more node{'s' * (count != 1)}, a part of it holds"
    if count := document.apart:
        yield f"at {count} node{'s' * (count != 1)}, no part of it holds"


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{printable(line)}\n" for line in lines)


def _match(match: MatchDocument) -> str:
    constants = f", constants {', '.join(match.constants)}" if match.constants else ""
    bound = ", ".join(f"{name} is {node}" for name, node in match.bound.items())
    return f"nodes {', '.join(match.nodes)}{constants} ({bound})"


class _Writer:
    def __init__(self, document: WhyDocument) -> None:
        self.file = document.tried.place.file if document.tried.place else ""

    def step(self, step: StepDocument, depth: int) -> Iterator[_Line]:
        """The line of a step, and below it what was tried, if that adds information."""
        is_root = depth == 0
        own = [] if is_root else step.refusals
        yield _Line(
            depth,
            f"{'✓' if step.held else '✗'} {_short(step.wanted)}",
            self.place(step.place),
            f"{step.node.name}: {step.node.what}, {step.node.type}",
            _remark(step, own),
            step.has_reason,
        )
        if step.held or step.has_reason:
            for condition in step.conditions:
                yield self.condition(condition, depth + 1, "")
            yield from self.ways(step, depth + 1)
        if is_root:
            for refusal in step.refusals:
                yield self.refusal(refusal, depth + 1)

    def ways(self, step: StepDocument, depth: int) -> Iterator[_Line]:
        shown = _first_held(step.ways) if step.held else step.ways
        for way in shown:
            if way.held:
                yield from self.way(way, depth)
            elif way.has_reason:
                named = len(shown) > 1 and way.how is not How.ALTERNATIVE
                if named:
                    yield _Line(depth, f"✗ {_how(way, step)}", is_near=True)
                yield from self.way(way, depth + named)
            else:
                yield _Line(depth, f"✗ {_how(way, step)}", remark=_first_refusal(way))

    def way(self, way: WayDocument, depth: int) -> Iterator[_Line]:
        left_out: dict[str, int] = {}
        seen: dict[str, int] = {}
        held = {step.wanted for step in way.steps if step.held}
        for step in way.steps:
            if not step.held and not step.has_reason:
                seen[step.wanted] = seen.get(step.wanted, 0) + 1
                if step.wanted in held or seen[step.wanted] > _MOST_NODES:
                    left_out[step.wanted] = left_out.get(step.wanted, 0) + 1
                    continue
            yield from self.step(step, depth)
        for wanted, count in left_out.items():
            yield _Line(depth, f"… {wanted}", remark=f"refused at {count} more nodes")
        for condition in way.conditions:
            yield self.condition(condition, depth, "where ")
        for refusal in way.refusals:
            yield self.refusal(refusal, depth)

    def condition(self, condition: ConditionDocument, depth: int, before: str) -> _Line:
        text = " ".join(condition.text.split()) or "a condition"
        facts = ", ".join(map(str, _facts(condition.facts)))
        said = condition.message if condition.answer is Answer.REFUSED and not facts else ""
        if condition.answer is Answer.NOT_ASKED:
            said = "not asked"
        remarks = [facts or said, _THE_REASON if condition.is_reason else ""]
        return _Line(
            depth,
            f"{_MARKS[condition.answer]} {before}{text}",
            self.place(condition.place),
            remark="  ".join(filter(None, remarks)),
            is_near=condition.is_reason or condition.answer is not Answer.HELD,
        )

    def refusal(self, refusal: RefusalDocument, depth: int) -> _Line:
        remark = _THE_REASON if refusal.is_reason else ""
        return _Line(depth, f"✗ {refusal.because}", remark=remark, is_near=refusal.is_reason)

    def place(self, place: WrittenDocument | None) -> str:
        """Line and column, with the file if it is another one."""
        if place is None:
            return ""
        return f"{place.line}:{place.column}" if place.file == self.file else str(place)


def _short(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}…"


def _remark(step: StepDocument, own: list[RefusalDocument]) -> str:
    if step.held:
        return _how_held(step)
    said = "; ".join(refusal.because for refusal in own)
    if any(refusal.is_reason for refusal in own):
        return f"{said}  {_THE_REASON}"
    return (
        said if step.has_reason or said else next(filter(None, map(_first_refusal, step.ways)), "")
    )


def _how_held(step: StepDocument) -> str:
    how = next((way.how for way in step.ways if way.held), None)
    if how in (How.PARTS, How.PATTERN):
        return "present" if step.optional else ""
    return str(how.value) if how in (How.SWAPPED, How.ABSENT) else ""


def _how(way: WayDocument, step: StepDocument) -> str:
    """The name of one of several ways."""
    if way.how is How.PARTS:
        return "operands as written"
    if way.how is How.PATTERN:
        return f"pattern {way.pattern}"
    if way.how is How.ABSENT:
        return "without it, as it is optional"
    if way.how is How.ALTERNATIVE and way.steps:
        return way.steps[0].wanted
    return str(way.how.value)


def _first_held(ways: list[WayDocument]) -> list[WayDocument]:
    """The ways up to the first that held; the tree shows that one."""
    first = next((at for at, way in enumerate(ways) if way.held), len(ways) - 1)
    return ways[: first + 1]


def _first_refusal(way: WayDocument) -> str:
    """The first refusal in a way, operands before conditions."""
    for step in way.steps:
        if not step.held:
            own = (refusal.because for refusal in step.refusals)
            bad = (_failed(condition) for condition in step.conditions)
            inner = (_first_refusal(each) for each in step.ways)
            return next((said for said in (*own, *bad, *inner) if said), "")
    refused = (refusal.because for refusal in way.refusals)
    bad = (_failed(condition) for condition in way.conditions)
    return next((said for said in (*refused, *bad) if said), "")


def _failed(condition: ConditionDocument) -> str:
    if condition.answer not in (Answer.REFUSED, Answer.UNKNOWN):
        return ""
    return condition.message or f"`{condition.text}` is {condition.answer.value}"


def _facts_of_reason(step: StepDocument) -> list[FactDocument]:
    for condition in (*step.conditions, *(c for way in step.ways for c in way.conditions)):
        if condition.is_reason:
            return condition.facts
    inner = (_facts_of_reason(part) for way in step.ways for part in way.steps)
    return next((found for found in inner if found), [])


def _facts(facts: list[FactDocument]) -> Iterator[str]:
    for fact in facts:
        yield f"{fact.of} is {fact.value}" + (f" ({fact.unknown})" if fact.unknown else "")


def _nearest(lines: list[_Line]) -> list[_Line]:
    """
    At most `MOST_LINES` lines, in order. The first line is kept, then the lines on the way to the
    reason that are nearest to it, then the others by depth.
    """
    reason = next((at for at, line in enumerate(lines) if line.remark.endswith(_THE_REASON)), 0)

    def rank(at: int) -> tuple[bool, bool, int]:
        line = lines[at]
        return at > 0, not line.is_near, abs(reason - at) if line.is_near else line.depth

    kept = sorted(range(len(lines)), key=rank)[:MOST_LINES]
    return [lines[at] for at in sorted(kept)]


def _columns(lines: Iterable[_Line]) -> list[str]:
    rows = [(line.place, "  " * line.depth + line.text, line.node, line.remark) for line in lines]
    return _aligned(rows)


def _aligned(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """
    Columns two spaces apart. A cell that is much wider than the others does not widen its column,
    but moves the rest of its line.
    """
    cells = [tuple(map(printable, row)) for row in rows]
    widths = [
        max((len(cell) for cell in column if len(cell) <= _WIDEST), default=0)
        for column in zip(*cells, strict=True)
    ]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
