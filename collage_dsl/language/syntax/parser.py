"""
Turn the text of a file into its syntax.

After an error, parsing continues at the next statement, so that one run finds all errors.
"""

import re
from dataclasses import dataclass

from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.messages.hints import Hint, write
from collage_dsl.language.syntax import ast
from collage_dsl.language.syntax.expected import advice, expectation
from collage_dsl.language.syntax.grammar import tables
from collage_dsl.language.syntax.lalr import END, Machine, Stacks
from collage_dsl.language.syntax.mistakes import NEAR, Place
from collage_dsl.language.syntax.nodes import Token, Tree
from collage_dsl.language.syntax.recovery import (
    defined_name,
    is_binding_with_let,
    next_statement,
)
from collage_dsl.language.syntax.tree import Builder
from collage_dsl.language.syntax.words import ITEM_KEYWORDS
from collage_dsl.memory import uncollected
from collage_dsl.printable import ACTING
from collage_dsl.source import Source, Span

EDITION = 1
"""The edition of the language that this package reads."""

MAX_CHARACTERS = 1 << 20
MAX_TOKENS = 100_000
"""About 15 000 lines, which can be checked or formatted in two seconds."""
MAX_NESTING = 200

_END = "$END"
_FREE = re.compile(r"""\#[^\n]* | "(?:[^"\\\n]++|\\[^\n])*+"? | `[^`\n]*+`?""", re.VERBOSE)
"""A comment, a string or a name in backquotes, closed or not: where any character is text."""
_INSIDE = {"pattern": "binding", "graph": "node", "test": "model"}
_EQUALS = re.compile(r"\s*=")


def parse_file(source: Source, findings: Findings) -> ast.File:
    """The syntax of `source`, without statements whose syntax errors are added to `findings`."""
    if not is_small(source, findings) or not _edition_is_known(source, findings):
        return ast.File((), ())
    with uncollected():
        tree, broken = parse_tree(source, "file", findings)
        file = Builder(source, findings).file(tree)
    return ast.File(file.items, (*broken, *file.broken))


def parse_tree(
    source: Source, start: str, findings: Findings
) -> tuple[Tree, tuple[ast.Broken, ...]]:
    """The tree of the statements that can be parsed, and the statements that cannot."""
    check_characters(source, findings)
    run = _Run(source, start, findings)
    with uncollected():
        return run.tree(), tuple(run.broken)


def is_small(source: Source, findings: Findings) -> bool:
    """Whether `source` is small enough to be parsed; reports that it is too large."""
    if len(source.text) <= MAX_CHARACTERS:
        return True
    at = Span(source, MAX_CHARACTERS, MAX_CHARACTERS)
    findings.error("E0106", at, "the text is longer than 1 MiB", "split it into several files")
    return False


def check_characters(source: Source, findings: Findings) -> None:
    """Report the first character of each comment, string and name that hides or turns text."""
    if not ACTING.search(source.text):
        return
    for part in _FREE.finditer(source.text):
        if found := ACTING.search(source.text, *part.span()):
            number = ord(found[0])
            message = f"U+{number:04X} changes how the text around it is shown"
            is_string = part[0][0] == '"'
            hint = write(f"\\u{{{number:x}}}") if is_string else Hint("leave it out", "")
            findings.error("E0109", Span(source, *found.span()), message, hint)


_BLANK = r"(?:\s|\#[^\n]*)*+"
_EDITION = re.compile(rf"{_BLANK}collage(?!\.?\w){_BLANK}([0-9][\w.]*)?")


def _edition_is_known(source: Source, findings: Findings) -> bool:
    """Whether this package reads the file's edition. If not, nothing else in it is reported."""
    found = _EDITION.match(source.text)
    if found is None:
        message = "the file does not say which edition of the language it is in"
        findings.error(
            "E0103", Span(source, 0, 0), message, Hint("begin with `collage 1;`", "collage 1;\n\n")
        )
        return True
    if found[1] in (None, str(EDITION)):  # without a number, the parser reports it
        return True
    span = Span(source, found.start(1), found.end(1))
    message = f"edition {found[1][:20]} of the language is not known"
    findings.error("E0103", span, message, f"this version of collage reads edition {EDITION}")
    return False


@dataclass(slots=True)
class _Block:
    """
    The inside of an open brace (or the whole text), and the statement being read in it.

    `stacks` are the stacks of the machine before the statement's `first` token.
    """

    brace: Token | None = None
    first: Token | None = None
    stacks: Stacks | None = None


_BRACKETS = frozenset({"LBRACE", "RBRACE", "SEMICOLON", "LPAR", "LSQB", "RPAR", "RSQB"})


_INSERT = Hint("insert `;` here", ";")


class _NestingError(Exception):
    """More brackets are open than allowed."""


class _TooLargeError(Exception):
    """The text has more tokens than allowed."""


class _Run:
    """One parse of one text."""

    def __init__(self, source: Source, start: str, findings: Findings) -> None:
        self.source = source
        self.start = start
        self.findings = findings
        self.machine = Machine(tables(start), source.text)
        self.blocks = [_Block()]
        self.open = 0
        self.end = 0
        self.tokens = 0
        self.broken: list[ast.Broken] = []

    def tree(self) -> Tree:
        while True:
            try:
                wrong = self.read()
            except _NestingError:
                self.close_all()
                return self.finish()
            except _TooLargeError:
                return Tree(self.start, [], 0, 0)  # what a part of the text would mean is not asked
            if wrong is not None:
                self.recover(wrong)
                continue
            if (tree := self.machine.finish()) is not None:
                return tree
            self.unexpected_end()
            return self.finish()

    def finish(self) -> Tree:
        tree = self.machine.finish()
        assert tree is not None, "every statement is closed"
        return tree

    def read(self) -> Token | None:
        """Take tokens up to the end (None), or up to the first that is not allowed."""
        scan, feed, text = self.machine.scan, self.feed, self.source.text
        while True:
            kind, start, end = scan()
            self.tokens += 1
            if kind == END:
                return None
            if self.tokens > MAX_TOKENS:
                self.too_large(start, end)
            if not kind:
                return self.machine.token(start)
            written = text[start:end]
            if not feed(kind, start, end, written):
                return Token(kind, written, start)

    def too_large(self, start: int, end: int) -> None:
        message = f"the text has more than {MAX_TOKENS} words and signs"
        at = Span(self.source, start, end)
        self.findings.error("E0106", at, message, "split it into several files")
        self.broken.append(ast.Broken("", at))
        raise _TooLargeError

    def feed(self, kind: str, start: int, end: int, written: str) -> bool:
        if not self.machine.feed(kind, start, end, written):
            return False
        self.end = max(self.end, end)
        block = self.blocks[-1]
        if block.first is None:
            block.first = Token(kind, written, start)
            block.stacks = self.machine.stacks.without_last()
        if kind in _BRACKETS:
            self.bracket(Token(kind, written, start))
        return True

    def insert(self, kind: str) -> None:
        """Continue as if a token of this kind followed the last one."""
        taken = self.feed(kind, self.end, self.end, "")
        assert taken, f"{kind} may stand here"

    def bracket(self, token: Token) -> None:
        match token.type:
            case "LBRACE":
                self.blocks.append(_Block(token))
            case "RBRACE":
                self.blocks.pop()
                self.blocks[-1].first = None
            case "SEMICOLON":
                self.blocks[-1].first = None
                self.open = 0
            case "LPAR" | "LSQB":
                self.open += 1
                self.check_nesting(token)
            case _:
                self.open -= 1

    def check_nesting(self, token: Token) -> None:
        if self.open > MAX_NESTING:
            message = f"more than {MAX_NESTING} brackets are open here"
            self.findings.error("E0105", self.span(token), message)
            raise _NestingError

    # Recovery from errors.

    def recover(self, wrong: Token) -> None:
        block = self.blocks[-1]
        item = block.first or wrong
        if self.is_next_item(block, item):
            self.unclosed(block)
            self.rewind(block)
            self.machine.at = item.start_pos
            self.close_all()
        elif self.misses_semicolon(wrong):
            at = Span(self.source, self.end, self.end)
            message = f"expected `;` after this {self.statement(block)}"
            self.findings.error("E0101", at, message, _INSERT)
            self.insert("SEMICOLON")
            self.machine.at = wrong.start_pos
        else:
            self.unexpected(wrong)
            self.skip(block, wrong)

    def is_next_item(self, block: _Block, item: Token) -> bool:
        """Whether `item` begins an item of the file after a missing brace, not a binding."""
        if block.brace is None or self.start != "file":
            return False
        text = self.source.text
        is_binding = _EQUALS.match(text, self.span(item).end)
        if self.inside()[-1] in _INSIDE and is_binding_with_let(text, item.start_pos):
            return False
        return str(item) in ITEM_KEYWORDS and not is_binding

    def misses_semicolon(self, wrong: Token) -> bool:
        """Whether a missing `;` before the wrong token is the likely error."""
        if "SEMICOLON" not in self.accepted():
            return False
        between = self.source.text[self.end : wrong.start_pos]
        keywords = (*ITEM_KEYWORDS, "where", "yield", "return", "expect", "costs", "}")
        return "\n" in between or str(wrong) in keywords

    def unexpected(self, wrong: Token) -> None:
        accepted = self.accepted()
        span = self.span(wrong)
        if wrong in ('"', "`"):
            what = "string" if wrong == '"' else "name"
            span = self.rest_of_line(span.start)
            self.findings.error("E0104", span, f"this {what} is not closed on its line")
        elif wrong == "}" and self.blocks[-1].brace is None:
            self.findings.error("E0101", span, "there is no open brace that this could close")
        elif wrong == "collage" and len(self.blocks) == 1:
            self.findings.error("E0103", span, "the edition is said once, on the first line")
        else:
            message = f"expected {expectation(accepted, self.start)}, found `{_shortened(wrong)}`"
            said = advice(str(wrong), self.place(wrong, accepted), self.start)
            place = Span(self.source, span.start - said.back, span.start + said.ahead)
            self.findings.error("E0101", span, message, said.hint, place=place)

    def unexpected_end(self) -> None:
        block = self.blocks[-1]
        if block.brace is not None:
            self.unclosed(block)
        elif "SEMICOLON" in self.accepted():
            at = Span(self.source, self.end, self.end)
            message = f"expected `;` after this {self.statement(block)}"
            self.findings.error("E0101", at, message, _INSERT)
            self.insert("SEMICOLON")
            return
        else:
            expected = expectation(self.accepted(), self.start)
            message = f"expected {expected}, found the end of the file"
            self.findings.error("E0101", Span(self.source, self.end, self.end), message)
        self.close_all()

    def unclosed(self, block: _Block) -> None:
        assert block.brace is not None
        self.findings.error("E0102", self.span(block.brace), "this `{` is never closed")

    def skip(self, block: _Block, wrong: Token) -> None:
        """Continue after the statement that contains the wrong token."""
        is_word = block.first is None and str(wrong) in ITEM_KEYWORDS  # a keyword, not an item
        start = self.span(wrong).end if is_word else wrong.start_pos
        if block.first is None:
            self.note_broken(block, self.span(wrong))
        self.restart(block)
        self.machine.at = next_statement(
            self.source.text,
            start,
            in_braces=block.brace is not None,
            in_file=self.start == "file",
        )

    def restart(self, block: _Block) -> None:
        """Give up the statement being read and record it as broken."""
        if block.first is not None:
            self.note_broken(block, Span(self.source, block.first.start_pos, self.end))
        self.rewind(block)

    def note_broken(self, block: _Block, span: Span) -> None:
        is_inside = block.brace is not None or self.start != "file"
        name = defined_name(self.source.text, span.start, in_braces=is_inside)
        self.broken.append(ast.Broken(name, span))

    def rewind(self, block: _Block) -> None:
        """Return to the state before the statement being read."""
        self.open = 0
        if block.first is not None:
            assert block.stacks is not None
            self.machine.stacks = block.stacks
            block.first = None

    def close_all(self) -> None:
        """Give up all statements being read, and close every open brace."""
        while len(self.blocks) > 1:
            self.restart(self.blocks[-1])
            self.insert("RBRACE")
        self.restart(self.blocks[-1])

    # Words in messages.

    def accepted(self) -> frozenset[str]:
        return self.machine.accepted()

    def place(self, wrong: Token, accepted: frozenset[str]) -> Place:
        """What stands around the wrong token."""
        text, at, block = self.source.text, wrong.start_pos, self.blocks[-1]
        begin = at if block.first is None else block.first.start_pos
        before = text[begin:at] if at - begin <= NEAR else f"…{text[at - NEAR : at]}"
        after = text[at : at + NEAR]
        around = self.blocks[-2].first if block.brace else block.first
        first = max(begin if around is None else around.start_pos, at - NEAR)
        so_far = text[first:at] + after.partition(";")[0]
        return Place(self.inside(), before, after, accepted, so_far)

    def inside(self) -> tuple[str, ...]:
        """The words before the open braces, the outermost first."""
        words = tuple(str(block.first) for block in self.blocks[:-1])
        return words if self.start == "file" else ("graph",)

    def statement(self, block: _Block) -> str:
        """What a message calls the statement being read."""
        match str(block.first):
            case "collage":
                return "edition"
            case "where":
                return "condition"
            case "yield" | "return":
                return "result"
            case "rule" | "let" | "import" as word if block.brace is None:
                return {"let": "definition"}.get(word, word)
            case "extern" if block.brace is None:
                return "predicate"
            case "pin" | "forbid" if block.brace is None:
                return "placement"
            case "expect":
                return "expectation"
            case word if word.startswith('"'):
                return "price"
            case _ if self.start == "graph_text":
                return "node"
            case _:
                return _INSIDE.get(str(self.blocks[-2].first), "setting")

    def span(self, token: Token) -> Span:
        return Span(self.source, token.start_pos, token.start_pos + len(token))

    def rest_of_line(self, start: int) -> Span:
        line, column = self.source.position(start)
        rest = self.source.line(line)[column - 1 :]
        return Span(self.source, start, start + len(rest))


def _shortened(token: Token) -> str:
    return str(token) if len(token) <= 30 else f"{token[:30]}…"
