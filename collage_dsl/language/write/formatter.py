"""Write a rule file in the one style: its line breaks, indentation and spaces."""

from collections.abc import Iterator, Sequence

from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.syntax.formatter_tree import (
    Block,
    Comment,
    Group,
    Item,
    Line,
    Node,
    Statement,
    Word,
    flat,
    has_space,
    statements,
)
from collage_dsl.language.syntax.parser import parse_file
from collage_dsl.language.syntax.whole_text import is_small
from collage_dsl.memory import uncollected
from collage_dsl.source import Source

WIDTH = 100
INDENT = 2

_IGNORES = "collage: ignore"
_BREAK_BEFORE = frozenset({"and", "or", "else", "because", "|"})


def format_source(source: Source) -> str:
    """
    The text of `source` in the one style: the same words in the same order, with their
    comments. Formatting the result again changes nothing.

    Raises RuleError if the text cannot be parsed.
    """
    findings = Findings()
    with findings.limited():
        parse_file(source, findings)
    findings.raise_errors()
    with uncollected():
        lines = _lines(_spread(statements(source.text)), 0)
        return "\n".join(lines).lstrip("\n") + "\n"


def formatted_text(text: str) -> str:
    """`text` in the one style; unchanged if it is too large to be a spec file."""
    source = Source("<text>", text)
    return format_source(source) if is_small(source, Findings()) else text


def _spread(lines: Sequence[Line]) -> Iterator[tuple[Line, bool]]:
    """The lines of a file, each with whether an empty line precedes it: always around a block."""
    apart = False
    for at, line in enumerate(lines):
        alone = apart or _leads_to_block(lines, at)
        yield line, at > 0 and (line.blank or alone)
        apart = isinstance(line, Statement) and (line.block is not None or line.first == "collage")


def _leads_to_block(lines: Sequence[Line], at: int) -> bool:
    """Whether a block, or the comment above a block, begins at `at`."""
    is_comment = at > 0 and isinstance(lines[at - 1], Comment) and not lines[at].blank
    if is_comment:
        return False  # the empty line goes before that comment
    line = next((line for line in _run(lines, at) if isinstance(line, Statement)), None)
    return line is not None and line.block is not None


def _run(lines: Sequence[Line], at: int) -> Iterator[Line]:
    """The line at `at`, and if it is a comment, the lines that follow without an empty line."""
    yield lines[at]
    while isinstance(lines[at], Comment) and at + 1 < len(lines) and not lines[at + 1].blank:
        at += 1
        yield lines[at]


def _lines(lines: Iterator[tuple[Line, bool]], indent: int, column: int = 0) -> Iterator[str]:
    """The text of `lines`; the values of settings begin at `column` after the indentation."""
    for line, blank in lines:
        if blank:
            yield ""
        if isinstance(line, Comment):
            yield " " * indent + line.text
        else:
            yield from _statement(line, indent, column)


def _statement(statement: Statement, indent: int, column: int) -> Iterator[str]:
    lines = list(_written(statement, indent, column))
    comment = statement.after
    if comment is not None and _IGNORES in comment.text and "\n" in "\n".join(lines):
        # The comment is about the first line, so it goes above it.
        yield " " * indent + comment.text
        lines[-1] = lines[-1].removesuffix(_ending(comment))
    yield from lines


def _written(statement: Statement, indent: int, column: int) -> Iterator[str]:
    block = statement.block
    margin = " " * indent
    if block is None:
        text = _laid_out(statement.nodes, indent, indent, 1, column)
        yield f"{margin}{text};{_ending(statement.after)}"
        return
    line = None if indent == 0 else _on_one_line(statement, block, column)
    if line is not None and indent + len(line) <= WIDTH:
        yield f"{margin}{line}{_ending(statement.after)}"
        return
    header = _laid_out(statement.nodes, indent, indent, 2, column) if statement.nodes else ""
    opening = f"{header} {{" if header else "{"
    if not block.lines and block.after_opening is None:
        yield f"{margin}{opening}}}{_ending(statement.after)}"
        return
    yield f"{margin}{opening}{_ending(block.after_opening)}"
    width = _column(block.lines) if statement.first == "target" else 0
    inside = ((line, at > 0 and line.blank) for at, line in enumerate(block.lines))
    yield from _lines(inside, indent + INDENT, width)
    yield f"{margin}}}{_ending(statement.after)}"


def _column(lines: Sequence[Line]) -> int:
    """The column of the values of settings: after the longest name."""
    return max((len(line.first) for line in lines if isinstance(line, Statement)), default=0)


def _on_one_line(statement: Statement, block: Block, column: int) -> str | None:
    """`limits { max_exits 1; }`; None if a comment or a block inside prevents one line."""
    if block.after_opening is not None:
        return None
    inside = [_flat_setting(line) for line in block.lines]
    header = _padded(statement.nodes, column)
    if header is None or None in inside:
        return None
    words = " ".join(filter(None, inside))
    return f"{header} {{ {words} }}" if words else f"{header} {{}}"


def _flat_setting(line: Line) -> str | None:
    if isinstance(line, Comment) or line.after is not None or line.block is not None:
        return None
    text = flat(line.nodes)
    return None if text is None else f"{text};"


def _padded(nodes: Sequence[Node], column: int) -> str | None:
    """`nodes` on one line, the first one padded with spaces up to `column`."""
    text = flat(nodes)
    first = nodes[0] if nodes else None
    if text is None or not isinstance(first, Word):
        return text
    rest = text[len(first.text) :]
    return first.text.ljust(column) + rest if rest or column < 0 else text.ljust(column)


def _laid_out(nodes: Sequence[Node], indent: int, start: int, tail: int, column: int = 0) -> str:
    """
    `nodes` from column `start`, on as few lines as possible. `tail` characters follow on the last
    line. Further lines are indented by one level more than `indent`.
    """
    pad = 0
    if column and len(nodes) > 1 and isinstance(nodes[0], Word):
        pad = column - len(nodes[0].text)
    text = flat(nodes)
    if text is not None and start + len(text) + pad + tail <= WIDTH:
        return _with_pad(nodes, text, pad)
    comment = next((at for at, node in enumerate(nodes) if isinstance(node, Comment)), None)
    if comment is not None:
        return _with_pad(nodes, _around_comment(nodes, comment, indent, start, tail), pad)
    parts = _conditions(nodes)
    if len(parts) > 1:
        further = indent + INDENT
        first = _laid_out(parts[0], indent, start + pad, 0)
        rest = [_laid_out(p, further, further, tail) for p in parts[1:]]
        return _with_pad(nodes, f"\n{' ' * further}".join([first, *rest]), pad)
    return _with_pad(nodes, _broken(nodes, indent, start + pad, tail), pad)


def _with_pad(nodes: Sequence[Node], text: str, pad: int) -> str:
    first = nodes[0] if nodes else None
    if pad <= 0 or not isinstance(first, Word):
        return text
    return first.text + " " * pad + text[len(first.text) :]


def _around_comment(nodes: Sequence[Node], at: int, indent: int, start: int, tail: int) -> str:
    """Lay out a statement with a comment in its middle; the comment stays there."""
    comment = nodes[at]
    assert isinstance(comment, Comment)
    further = indent + INDENT
    margin = "\n" + " " * further
    before = _laid_out(nodes[:at], indent, start, 0) if at else ""
    separator = margin if comment.own_line else "  "
    after = _laid_out(nodes[at + 1 :], further, further, tail)
    return f"{before}{separator if before else ''}{comment.text}{margin}{after}"


def _conditions(nodes: Sequence[Node]) -> list[Sequence[Node]]:
    """The parts at which long statements are broken: `a`, `and b`, `| c`, `else "why"`."""
    starts = [
        at
        for at, node in enumerate(nodes)
        if at > 0 and isinstance(node, Word) and node.text in _BREAK_BEFORE
    ]
    return [
        nodes[start:end] for start, end in zip([0, *starts], [*starts, len(nodes)], strict=True)
    ]


def _broken(nodes: Sequence[Node], indent: int, start: int, tail: int) -> str:
    """`nodes` with one bracket spread over several lines, or more brackets if that is too long."""
    at = _bracket(nodes, start)
    if at is None:
        return flat(nodes) or ""
    group = nodes[at]
    assert isinstance(group, Group)
    before = flat(nodes[:at]) or ""
    space = " " if before and has_space(group) else ""
    rest = nodes[at + 1 :]
    text = f"{before}{space}{_opened(group, indent)}"
    if not rest:
        return text
    space = " " if has_space(rest[0]) else ""
    return f"{text}{space}{_laid_out(rest, indent, indent + 1 + len(space), tail)}"


def _bracket(nodes: Sequence[Node], start: int) -> int | None:
    """
    The index of the bracket to break: the first with a comment in it, else the last one that
    still begins on this line. Breaking the last keeps more of the statement together.
    """
    found, column = None, start
    for at, node in enumerate(nodes):
        if isinstance(node, Group) and node.flat is None:
            return at
        if isinstance(node, Group) and _can_break(node) and (found is None or column < WIDTH):
            found = at
        column += has_space(node) + len(flat([node]) or "")
    return found


def _can_break(group: Group) -> bool:
    return group.parts > 1 or any(len(item.nodes) > 1 for item in group.items)


def _opened(group: Group, indent: int) -> str:
    """A bracket with each item on its own line."""
    inner = indent + INDENT
    lines = [group.opening.text + _ending(group.after_opening)]
    several = group.parts > 1 or group.is_tuple_of_one
    for item in group.items:
        lines += [" " * inner + comment.text for comment in item.before]
        if item.nodes:
            lines.append(" " * inner + _item(item, inner, "," if several else ""))
    return "\n".join([*lines, " " * indent + group.closing])


def _item(item: Item, indent: int, comma: str) -> str:
    text = _laid_out(item.nodes, indent, indent, len(comma))
    return f"{text}{comma}{_ending(item.after)}"


def _ending(comment: Comment | None) -> str:
    return "" if comment is None else f"  {comment.text}"
