"""
Split a text into words, brackets, statements and comments for the formatter.

Only brackets and semicolons matter here, not what a construct means. So a new construct of the
language needs no change.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from collage_dsl.language.syntax import aliases

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n\f]+)
    | (?P<comment>\#[^\n]*)
    | (?P<string>"(?:[^"\\\n]++|\\[^\n])*+" | `[^`\n]+`)
    | (?P<open>"(?:[^"\\\n]++|\\[^\n])*+)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*+(?:\.[A-Za-z_][A-Za-z0-9_]*+)*+)
    | (?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?:%(?=\s*[;\#])|[A-Za-z_]*))
    | (?P<sign>==|!=|<=|>=|~=|->|\.\.|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_KEYWORDS = frozenset(
    {"and", "or", "not", "in", "on", "else", "because", "only", "through", "to", "within"}
)
"""Words inside a statement after which a bracket is not a call or an index."""

_OPERATORS = frozenset(
    ["=", "==", "!=", "<=", ">=", "~=", "≈", "<", ">", "+", "-", "*", "/", "%", "|", "&", "->", ":"]
)
_CLOSING = {"(": ")", "[": "]"}


@dataclass(frozen=True, slots=True)
class Word:
    """A token: whether a space precedes it, and whether it opens a call or an index."""

    text: str
    space: bool
    called: bool = False


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment; `own_line`: it is alone on its line; `blank`: an empty line precedes it."""

    text: str
    own_line: bool
    blank: bool


@dataclass(frozen=True, slots=True)
class Item:
    """One of the parts of a bracket, with the comments before it and the one at its end."""

    before: tuple[Comment, ...]
    nodes: tuple["Node", ...]
    after: Comment | None


@dataclass(frozen=True, slots=True)
class Group:
    """
    `(…)` or `[…]`. `flat` is its text on one line, None if a comment prevents that.

    A comma after the only item is kept if it makes a tuple.
    """

    opening: Word
    after_opening: Comment | None
    items: tuple[Item, ...]
    is_tuple_of_one: bool
    flat: str | None

    @property
    def closing(self) -> str:
        return _CLOSING[self.opening.text]

    @property
    def parts(self) -> int:
        """The number of items that are not only comments."""
        return sum(bool(item.nodes) for item in self.items)


Node = Word | Comment | Group


@dataclass(frozen=True, slots=True)
class Block:
    """`{ … }`"""

    after_opening: Comment | None
    lines: tuple["Line", ...]

    def with_first(self, comments: Sequence[Comment]) -> "Block":
        """The block with `comments`, which stand before its brace, put inside it."""
        if not comments:
            return self
        first, *others = comments
        if self.after_opening is not None:
            others.append(self.after_opening)
        return Block(first, (*others, *self.lines))


@dataclass(frozen=True, slots=True)
class Statement:
    """The words up to `;` or up to the end of a block. `blank`: an empty line precedes it."""

    nodes: tuple[Node, ...]
    block: Block | None
    after: Comment | None
    blank: bool

    @property
    def first(self) -> str:
        node = self.nodes[0] if self.nodes else None
        return node.text if isinstance(node, Word) else ""


Line = Statement | Comment


def flat(nodes: Sequence[Node]) -> str | None:
    """`nodes` on one line; None if a comment inside ends a line."""
    written: list[str] = []
    for node in nodes:
        text = node.flat if isinstance(node, Group) else node.text
        if text is None or isinstance(node, Comment):
            return None
        written.append(f" {text}" if written and has_space(node) else text)
    return "".join(written)


def has_space(node: Node) -> bool:
    """Whether a space precedes `node` if it does not begin a line."""
    if isinstance(node, Group):
        return node.opening.space
    return isinstance(node, Comment) or node.space


def words(text: str) -> Iterator[str]:
    """The tokens of `text` without white space and commas."""
    for found in _TOKEN.finditer(text):
        if found.lastgroup != "space" and found[0] != ",":
            yield found[0].rstrip()


def tokens(text: str) -> Iterator[tuple[str, int, int]]:
    """Each token of `text`: its kind (space, comment, word and so on), start, end."""
    for found in _TOKEN.finditer(text):
        yield found.lastgroup or "", *found.span()


def comments(text: str) -> Iterator[tuple[int, int]]:
    """The start and end of each comment of `text`."""
    for found in _TOKEN.finditer(text):
        if found.lastgroup == "comment":
            yield found.span()


def statements(text: str) -> tuple[Line, ...]:
    """The lines of a whole text. The text must have no syntax errors."""
    return _Reader(_scan(text)).lines()


@dataclass(slots=True)
class _Before:
    """The facts about the previous token that decide on a space before the next one."""

    text: str = ""
    kind: str = ""
    begins: bool = False
    unary: bool = False
    item: str = ""
    ends_type: bool = False
    """Whether it ends the type of a constant, which a negative number may follow."""

    def is_name(self) -> bool:
        return self.kind == "word" and not self.begins and self.text not in _KEYWORDS


class _Scanned(NamedTuple):
    node: Word | Comment
    blank: bool


def _scan(text: str) -> list[_Scanned]:
    """Each token, with whether a space belongs before it."""
    found: list[_Scanned] = []
    before, breaks, depth, in_type = _Before(), 2, 0, False
    for match in _TOKEN.finditer(text):
        kind, token = match.lastgroup or "", match[0]
        if kind == "space":
            breaks += token.count("\n")
            continue
        if kind == "comment":
            found.append(_Scanned(Comment(token.rstrip(), breaks > 0, breaks > 1), breaks > 1))
            breaks = 0
            continue
        begins = before.text in ("", ";", "{", "}")
        if begins and depth == 0:
            before.item = token
        called = token in ("(", "[") and _opens_call(before, token)
        ours = _ours(token, before.item, begins, text, match.end())
        word = Word(ours, _space(before, token), called)
        found.append(_Scanned(word, breaks > 1))
        after_value = before.kind == "number" or _ends_value(before)
        unary = token == "-" and (before.ends_type or not after_value)
        in_type = token == "const" or (in_type and before.text != "]")
        before = _Before(token, kind, begins, unary, before.item, in_type and token == "]")
        depth += (token == "{") - (token == "}")
        breaks = 0
    return found


def _ours(token: str, item: str, begins: bool, text: str, end: int) -> str:
    """Our name if `token` is another name of a rule, a setting or a sign, else `token`."""
    if token in aliases.SIGNS:
        return aliases.SIGNS[token]
    if begins and item == "target" and token in aliases.SETTINGS:
        return aliases.SETTINGS[token]
    if token in aliases.RULES and item in ("rule", "target") and text[end:].lstrip()[:1] == "(":
        return aliases.RULES[token]
    return token


def _ends_value(before: _Before) -> bool:
    return before.is_name() or before.kind == "string" or before.text in (")", "]", "?")


def _opens_call(before: _Before, token: str) -> bool:
    return before.is_name() or (token == "(" and before.text in ("?", ")"))


def _space(before: _Before, token: str) -> bool:
    if token in (")", "]", ";", ",") or before.text in ("(", "["):
        return False
    if before.text == ",":
        return True
    if token in (":", "?", ".", "..") or before.text in (".", "..", "~") or before.unary:
        return token in ("?", "..") and before.text in _OPERATORS
    if token in ("(", "["):
        return not _opens_call(before, token)
    return True


class _Reader:
    """Builds the lines from the tokens."""

    def __init__(self, scanned: list[_Scanned]) -> None:
        self.scanned = scanned
        self.words = [one.node.text if isinstance(one.node, Word) else "" for one in scanned]
        self.at = 0

    def peek(self) -> Word | Comment | None:
        return self.scanned[self.at].node if self.at < len(self.scanned) else None

    def is_at(self, *texts: str) -> bool:
        return self.at < len(self.words) and self.words[self.at] in texts

    def trailing_comment(self) -> Comment | None:
        """The comment that follows on the same line, if there is one."""
        node = self.peek()
        if not isinstance(node, Comment) or node.own_line:
            return None
        self.at += 1
        return node

    def lines(self) -> tuple[Line, ...]:
        found: list[Line] = []
        while (node := self.peek()) is not None and not self.is_at("}"):
            if isinstance(node, Comment):
                self.at += 1
                found.append(node)
            else:
                found += self.statement()
        return tuple(found)

    def statement(self) -> list[Line]:
        blank = self.scanned[self.at].blank
        nodes, comments = _without_last_comments(self.nodes(";", "{", "}"))
        block = self.block() if self.is_at("{") else None
        if block is not None:
            block, comments = block.with_first(comments), []
        if self.is_at(";"):
            self.at += 1
        ending = self.trailing_comment()
        if ending is not None:
            comments.append(ending)
        after = comments.pop(0) if comments else None
        return [Statement(tuple(nodes), block, after, blank), *comments]

    def block(self) -> Block:
        self.at += 1
        after_opening = self.trailing_comment()
        lines = self.lines()
        self.at += 1
        return Block(after_opening, lines)

    def nodes(self, *ends: str) -> list[Node]:
        """The nodes up to one of `ends`, which is not read."""
        found: list[Node] = []
        while self.at < len(self.words) and self.words[self.at] not in ends:
            node = self.scanned[self.at].node
            if isinstance(node, Word) and node.text in _CLOSING:
                found.append(self.group(node))
            else:
                self.at += 1
                found.append(node)
        return found

    def group(self, opening: Word) -> Group:
        self.at += 1
        after_opening = self.trailing_comment()
        closing = _CLOSING[opening.text]
        items: list[Item] = []
        comma = False
        while not self.is_at(closing) and self.peek() is not None:
            before, nodes = _without_first_comments(self.nodes(",", closing))
            nodes, comments = _without_last_comments(nodes)
            if self.is_at(","):
                comma = True
                self.at += 1
                if (ending := self.trailing_comment()) is not None:
                    comments.append(ending)
            is_after = bool(nodes and comments) and not comments[0].own_line
            after = comments.pop(0) if is_after else None
            items.append(Item(tuple(before), tuple(nodes), after))
            if comments:
                items.append(Item(tuple(comments), (), None))
        self.at += 1
        lonely = comma and not opening.called and opening.text == "("
        lonely = lonely and sum(bool(item.nodes) for item in items) == 1
        line = None if after_opening else _flat_group(opening, items, lonely)
        return Group(opening, after_opening, tuple(items), lonely, line)


def _flat_group(opening: Word, items: Sequence[Item], is_tuple_of_one: bool) -> str | None:
    written = []
    for item in items:
        text = flat(item.nodes)
        if text is None or item.before or item.after:
            return None
        written.append(text)
    comma = "," if is_tuple_of_one else ""
    return f"{opening.text}{', '.join(written)}{comma}{_CLOSING[opening.text]}"


def _without_first_comments(nodes: list[Node]) -> tuple[list[Comment], list[Node]]:
    comments: list[Comment] = []
    for node in nodes:
        if not isinstance(node, Comment):
            break
        comments.append(node)
    return comments, nodes[len(comments) :]


def _without_last_comments(nodes: list[Node]) -> tuple[list[Node], list[Comment]]:
    comments, rest = _without_first_comments(nodes[::-1])
    return rest[::-1], comments[::-1]
