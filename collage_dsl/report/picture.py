"""Draw graphs as SVG pictures, with candidates or kernels as coloured outlines."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain, pairwise

from collage_dsl.graph import (
    CandidateKernel,
    Form,
    Graph,
    Node,
    OpSet,
    TupleType,
    first,
    members,
    opset,
)
from collage_dsl.printable import printable
from collage_dsl.report.layout import HEIGHT, Layout, Point, layout
from collage_dsl.search import Plan

COLOURS = 6
"""The number of colours. They differ for colour-blind readers too (Okabe and Ito)."""

_STROKES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_LIGHT = ("#cce3f0", "#f7dfcc", "#ccece3", "#f5e4ed", "#faeccc", "#ddf0fb")
_DARK = ("#0c3d5c", "#5c2f0c", "#0c4a39", "#573346", "#57400c", "#2b4f64")
_WIDEST = 900
"""The width after which panels continue in the next row."""
_MARGIN = 18
_LINE = 17
"""The height of a line below a panel."""
_LETTER = 6.7
"""The width of a letter."""
_LONGEST = 24
"""The most letters of a name; longer names lose their middle."""


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes and constants with one outline around them, and the text for its colour below."""

    inside: OpSet
    colour: int
    text: str = ""
    is_faint: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """A copy of the graph with groups that do not overlap, and lines of text above it."""

    groups: Sequence[Group]
    heading: Sequence[str] = ()


def candidates_picture(graph: Graph, candidates: Sequence[CandidateKernel]) -> str:
    """
    The candidates, in order, in several copies of the graph: a new copy begins where a candidate
    would overlap another in the same copy.
    """
    panels: list[list[Group]] = [[]]
    for each in candidates:
        inside = each.sub_graph.inside | each.sub_graph.constants
        room = (p for p in panels if not any(inside & other.inside for other in p))
        panel = next(room, None)
        if panel is None:
            panels.append(panel := [])
        panel.append(Group(inside, len(panel), f"{_names(graph, each)}: {each.label}"))
    return picture(graph, [Panel(groups) for groups in panels])


def plan_picture(plan: Plan) -> str:
    """The kernels of a plan in one copy of the graph, each in the colour of its target."""
    return picture(plan.graph, [plan_panel(plan)])


def plan_panel(plan: Plan, heading: Sequence[str] = (), targets: Iterable[str] = ()) -> Panel:
    """The panel of a plan, with a heading. `targets` get their colours first, in order."""
    number_of = Counter(kernel.target for kernel in plan.kernels)
    named = dict.fromkeys([*targets, *number_of])
    colour_of = {target: colour for colour, target in enumerate(named)}
    groups = []
    for each in plan.candidates:
        number = number_of.pop(each.target, 0)
        said = f"{each.target}: {number} kernel{'s' * (number > 1)}" if number else ""
        inside = each.sub_graph.inside | each.sub_graph.constants
        groups.append(Group(inside, colour_of[each.target], said))
    return Panel(groups, heading)


def picture(graph: Graph, panels: Sequence[Panel]) -> str:
    """An SVG of one copy of the graph for each panel, with its groups."""
    shown = graph.computed | opset(
        i for i in members(graph.parameters | graph.constants) if graph.users_of[i]
    )
    labels = {i: _label(graph, graph.nodes[i]) for i in members(shown)}
    widths = {i: _width(name, what) for i, (name, what) in labels.items()}
    drawing = _Drawing(graph, labels, widths, layout(graph, shown, widths))
    placed, width, height = _arranged([drawing.size(panel) for panel in panels])
    body = [
        f'<g transform="translate({x} {y})">{"".join(drawing.drawn(panel))}</g>'
        for (x, y), panel in zip(placed, panels, strict=True)
    ]
    size = f'width="{width}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size}'
    return "\n".join(
        [
            f'{head} role="img">',
            f"<title>{escape(_title(panels))}</title>",
            f"<style>{_style()}</style>",
            f'<rect class="paper" {size}/>',
            *body,
            "</svg>\n",
        ]
    )


def _title(panels: Sequence[Panel]) -> str:
    texts = (text for panel in panels for text in (*panel.heading, *_texts(panel)))
    return "; ".join(texts) or "no kernels"


def _texts(panel: Panel) -> list[str]:
    return [_short(printable(group.text), 2 * _LONGEST) for group in panel.groups if group.text]


def _arranged(sizes: Sequence[Point]) -> tuple[list[Point], int, int]:
    """The places of the panels, row by row, and the size of the whole picture."""
    places: list[Point] = []
    x = y = _MARGIN
    below = widest = 0
    for width, height in sizes:
        if x > _MARGIN and x + width > _WIDEST:
            x, y = _MARGIN, below + _MARGIN
        places.append((x, y))
        x += width + 2 * _MARGIN
        widest, below = max(widest, x - _MARGIN), max(below, y + height)
    return places, widest, below + _MARGIN


@dataclass(frozen=True, slots=True)
class _Drawing:
    """Draws panels of one graph, whose layout is computed once."""

    graph: Graph
    labels: dict[int, tuple[str, str]]
    widths: dict[int, int]
    layout: Layout

    def size(self, panel: Panel) -> Point:
        said = _texts(panel)
        widths = (round(_LETTER * len(text)) + _LINE for text in (*panel.heading, *said))
        return max(self.layout.width, *widths, 0), self._bottom(panel) + _LINE * len(said)

    def _top(self, panel: Panel) -> int:
        """The y at which the graph begins, with a gap below the heading for outlines."""
        return _LINE * len(panel.heading) + (_LINE // 2 if panel.heading else 0)

    def _bottom(self, panel: Panel) -> int:
        """The y at which the texts of the groups begin, below the arrows of the results."""
        return self._top(panel) + self.layout.height + 26

    def drawn(self, panel: Panel) -> Iterator[str]:
        for number, line in enumerate(panel.heading):
            yield f'<text class="said" x="1" y="{_LINE * number + 9}">{escape(line)}</text>'
        shift = (self.size(panel)[0] - self.layout.width) // 2
        yield f'<g transform="translate({shift} {self._top(panel)})">'
        for group in panel.groups:
            yield from _faded(group, self._outline(group))
        for points in self.layout.edges.values():
            yield f'<path class="edge" d="{_curve(points)}"/>{_arrow(points[-1])}'
        for index in self.layout.places:
            yield from self._box(index)
        yield "</g>"
        named = (group for group in panel.groups if group.text)
        for number, (group, text) in enumerate(zip(named, _texts(panel), strict=True)):
            y, colour = self._bottom(panel) + _LINE * number, group.colour % COLOURS
            square = f'x="1" y="{y - 1}" width="11" height="11" rx="3"'
            yield from _faded(group, [f'<rect class="s{colour} f{colour}" {square}/>'])
            yield f'<text class="said" x="{_LINE + 1}" y="{y + 9}">{escape(text)}</text>'

    def _outline(self, group: Group) -> Iterator[str]:
        """
        The outline of a group: its boxes and edges are drawn thick, and then a little less thick
        in another colour, so that a line remains around them. Parts that do not touch are joined
        by a dashed line.
        """
        colour = group.colour % COLOURS
        inside = [edge for edge in self.layout.edges if all(group.inside >> i & 1 for i in edge)]
        parts = self._parts(group.inside)
        for one, other in pairwise(parts):
            (x, y), (to_x, to_y) = self.layout.places[one], self.layout.places[other]
            yield f'<path class="s{colour} far" d="M{x} {y}L{to_x} {to_y}"/>'
        for pad, thick, sort in ((9, 24, "around"), (7, 20, "within")):
            kind = f'class="{sort} s{colour} f{colour}"'
            for edge in inside:
                d = _curve(self.layout.edges[edge])
                yield f'<path {kind} stroke-width="{thick}" d="{d}"/>'
            for index in members(group.inside):
                x, y = self.layout.places[index]
                width, height = self.widths[index] + 2 * pad, HEIGHT + 2 * pad
                yield (
                    f'<rect {kind} x="{x - width // 2}" y="{y - height // 2}" '
                    f'width="{width}" height="{height}" rx="{pad + 6}"/>'
                )

    def _parts(self, inside: OpSet) -> list[int]:
        """The first node of each part whose nodes are joined by edges inside."""
        firsts, left = [], inside
        while left:
            firsts.append(first(left))
            part = left & -left
            while part:
                left &= ~part
                part = (self.graph.input(part) | self.graph.output(part)) & left
        return firsts

    def _box(self, index: int) -> Iterator[str]:
        node = self.graph.nodes[index]
        (x, y), width = self.layout.places[index], self.widths[index]
        name, what = self.labels[index]
        round_by = {Form.CALL: 6, Form.CONSTANT: 2}.get(node.form, HEIGHT // 2)
        if self.graph.results >> index & 1:
            below = y + HEIGHT // 2
            yield f'<path class="edge" d="M{x} {below}v18"/>{_arrow((x, below + 18))}'
        yield (
            f'<rect class="box {node.form.value}" x="{x - width // 2}" y="{y - HEIGHT // 2}" '
            f'width="{width}" height="{HEIGHT}" rx="{round_by}"/>'
            f'<text class="name" x="{x}" y="{y - 3}">{escape(name)}</text>'
            f'<text class="what" x="{x}" y="{y + 12}">{escape(what)}</text>'
        )


def _faded(group: Group, drawn: Iterable[str]) -> Iterator[str]:
    """`drawn`, almost transparent if the group is faint."""
    if not group.is_faint:
        return iter(drawn)
    return chain(['<g opacity="0.4">'], drawn, ["</g>"])


def _label(graph: Graph, node: Node) -> tuple[str, str]:
    """The name of a node, and its operator or form."""
    match node.form:
        case Form.CALL:
            what = node.op
        case Form.TUPLE:
            what = f"({', '.join(graph.nodes[i].name for i in node.inputs)})"
        case Form.PROJECTION:
            what = f"{graph.nodes[node.inputs[0]].name}.{node.value}"
        case Form.CONSTANT:
            what = f"const {node.type}"
        case _:
            what = "tuple" if isinstance(node.type, TupleType) else str(node.type)
    return _short(printable(node.name), _LONGEST), _short(printable(what), _LONGEST)


def _names(graph: Graph, each: CandidateKernel) -> str:
    inside = each.sub_graph.inside | each.sub_graph.constants
    return " ".join(graph.nodes[i].name for i in members(inside))


def _short(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{text[: most - 1 - half]}…{text[-half:]}"


def _width(*texts: str) -> int:
    """The width of a box with these lines; even, so that its middle is a whole number."""
    return 2 * round(_LETTER * max(map(len, texts)) / 2) + 20


def _curve(points: Iterable[Point]) -> str:
    """A curve down through all points, with vertical tangents at the points."""
    (x, y), *further = points
    parts = [f"M{x} {y}"]
    for to_x, to_y in further:
        half = (y + to_y) // 2
        parts.append(f"L{to_x} {to_y}" if x == to_x else f"C{x} {half} {to_x} {half} {to_x} {to_y}")
        x, y = to_x, to_y
    return "".join(parts)


def _arrow(tip: Point) -> str:
    x, y = tip
    return f'<path class="tip" d="M{x - 4} {y - 7}L{x} {y}L{x + 4} {y - 7}z"/>'


def _style() -> str:
    light = _scheme("#ffffff", "#1f2328", "#59636e", "#ffffff", _LIGHT)
    dark = _scheme("#0d1117", "#f0f6fc", "#9da7b3", "#161b22", _DARK)
    strokes = "".join(f".s{i}{{stroke:{stroke}}}" for i, stroke in enumerate(_STROKES))
    return (
        "text{font:11px ui-monospace,Menlo,Consolas,monospace;text-anchor:middle}"
        ".name{font-weight:bold}.said{text-anchor:start}.edge{fill:none;stroke-width:1.3}"
        ".box{stroke-width:1.2}.constant{stroke-dasharray:4 2}.input{stroke-dasharray:1 2}"
        ".far{stroke-width:2;stroke-dasharray:5 4;fill:none}"
        "path.around,path.within{fill:none;stroke-linecap:butt}"
        f"{strokes}rect.within,rect.around{{stroke:none}}{light}"
        f"@media(prefers-color-scheme:dark){{{dark}}}"
    )


def _scheme(paper: str, ink: str, line: str, box: str, fills: Sequence[str]) -> str:
    groups = "".join(
        f".f{i}{{fill:{fill}}}path.within.f{i}{{stroke:{fill}}}rect.around.s{i}{{fill:{stroke}}}"
        for i, (fill, stroke) in enumerate(zip(fills, _STROKES, strict=True))
    )
    return (
        f".paper{{fill:{paper}}}text{{fill:{ink}}}.what{{fill:{line}}}.edge{{stroke:{line}}}"
        f".tip{{fill:{line}}}.box{{fill:{box};stroke:{line}}}{groups}"
    )
