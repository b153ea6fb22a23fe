"""
From text to syntax. Parsing goes on after an error, at the next statement, so that one run
finds all errors.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from lark import Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedToken
from lark.parsers.lalr_parser_state import ParserState

from collage_dsl.language import syntax
from collage_dsl.language.expected import expectation, hint
from collage_dsl.language.findings import Findings
from collage_dsl.language.grammar import lark
from collage_dsl.language.tree import Builder
from collage_dsl.source import Source, Span

EDITION = 1
"""The edition of the language that this package reads."""

MAX_CHARACTERS = 1 << 20
MAX_NESTING = 200

_END = "$END"
_ITEM_KEYWORDS = ("import", "let", "extern", "pattern", "rule", "target", "pin", "forbid", "test")
_ITEM = "|".join(_ITEM_KEYWORDS)
_RESYNC = re.compile(
    rf"""\#[^\n]* | "(?:[^"\\\n]|\\[^\n])*" | [{{}};] | ^(?:{_ITEM})(?![A-Za-z0-9_])""",
    re.MULTILINE | re.VERBOSE,
)
_DEFINED = re.compile(rf"(?:extern\s+predicate|{_ITEM})\s+([A-Za-z_][\w.]*)|([A-Za-z_][\w.]*)")
_EQUALS = re.compile(r"\s*=")
_BRACES = re.compile(r"\}(?:\s*\})*")


def parse_file(source: Source, findings: Findings) -> syntax.File:
    """What `source` says, less the statements that `findings` now has syntax errors for."""
    if not is_small(source, findings) or not _edition_is_known(source, findings):
        return syntax.File((), ())
    tree, broken = parse_tree(source, "file", findings)
    file = Builder(source, findings).file(tree)
    return syntax.File(file.items, (*broken, *file.broken))


def parse_tree(
    source: Source, start: str, findings: Findings
) -> tuple[Tree[Token], tuple[syntax.Broken, ...]]:
    """The tree of the statements that can be read, and those that cannot."""
    run = _Run(source, start, findings)
    return run.tree(), tuple(run.broken)


def is_small(source: Source, findings: Findings) -> bool:
    """Whether `source` may be parsed at all."""
    if len(source.text) <= MAX_CHARACTERS:
        return True
    at = Span(source, MAX_CHARACTERS, MAX_CHARACTERS)
    findings.error("E0106", at, "the text is longer than 1 MiB", "split it into several files")
    return False


_FIRST_LINE = re.compile(r"(?:\s|\#[^\n]*)*(?:collage\s+([0-9]+)\s*;)?")


def _edition_is_known(source: Source, findings: Findings) -> bool:
    """What follows in a newer edition cannot be judged, so nothing else is said about it."""
    found = _FIRST_LINE.match(source.text)
    if found is None or found[1] is None:
        return True
    if len(found[1]) < 6 and int(found[1]) == EDITION:
        return True
    span = Span(source, found.start(1), found.end(1))
    message = f"edition {found[1][:20]} of the language is not known"
    findings.error("E0103", span, message, f"this version of collage reads edition {EDITION}")
    return False


@dataclass(slots=True)
class _Block:
    """
    The inside of an open brace (or the whole text), and the statement that is being read.

    `states` and `values` are the parser's stacks as they were before its `first` token.
    """

    brace: Token | None = None
    first: Token | None = None
    states: list[Any] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)


class _NestingError(Exception):
    """More brackets are open than may be."""


class _Run:
    """One parse of one text."""

    def __init__(self, source: Source, start: str, findings: Findings) -> None:
        self.source = source
        self.start = start
        self.findings = findings
        self.parser = lark(start).parse_interactive(source.text, start=start)
        self.blocks = [_Block()]
        self.open = 0
        self.end = 0
        self.broken: list[syntax.Broken] = []

    def tree(self) -> Tree[Token]:
        while True:
            try:
                for token in self.tokens():
                    self.feed(token)
                return self.finish()
            except UnexpectedToken as problem:
                wrong = problem.token
            except UnexpectedCharacters as problem:
                wrong = self.character(problem.pos_in_stream or 0)
            except _NestingError:
                self.close_all()
                return self.finish()
            if wrong.type == _END:
                self.unexpected_end(wrong)
                return self.finish()
            self.recover(wrong)

    def tokens(self) -> Iterator[Token]:
        state = self.parser.parser_state
        tokens: Iterator[Token] = self.parser.lexer_thread.lex(state)  # type: ignore[no-untyped-call]
        return tokens

    def finish(self) -> Tree[Token]:
        end = self.synthetic(_END, "", len(self.source.text))
        result: Tree[Token] = self.parser.parser_state.feed_token(end, is_end=True)
        return result

    def feed(self, token: Token) -> None:
        block = self.blocks[-1]
        state = self.parser.parser_state
        state.feed_token(token)
        if block.first is None and token.type != "RBRACE":
            block.first = token
            block.states, block.values = state.state_stack[:-1], state.value_stack[:-1]
        self.end = max(self.end, token.end_pos or 0)
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
            case "RPAR" | "RSQB":
                self.open -= 1

    def check_nesting(self, token: Token) -> None:
        if self.open > MAX_NESTING:
            message = f"more than {MAX_NESTING} brackets are open here"
            self.findings.error("E0105", self.span(token), message)
            raise _NestingError

    # After an error.

    def recover(self, wrong: Token) -> None:
        block = self.blocks[-1]
        if self.is_next_item(block):
            self.unclosed(block)
            self.restart(block)
            self.go_on_at(self.broken.pop().span.start)
            block.first = None
            self.close_all()
        elif self.misses_semicolon(wrong):
            at = Span(self.source, self.end, self.end)
            self.findings.error(
                "E0101", at, f"expected `;` after this {self.statement(block)}", "insert `;` here"
            )
            self.feed(self.synthetic("SEMICOLON", ";", self.end))
            self.go_on_at(_start(wrong))
        else:
            self.unexpected(wrong)
            self.skip(block, wrong)

    def is_next_item(self, block: _Block) -> bool:
        """Whether the statement is no setting or binding, but an item after a missing brace."""
        if block.brace is None or block.first is None or self.start != "file":
            return False
        after = _start(block.first) + len(block.first)
        is_binding = _EQUALS.match(self.source.text, after)
        return str(block.first) in _ITEM_KEYWORDS and is_binding is None

    def misses_semicolon(self, wrong: Token) -> bool:
        """Whether all would be well had there been a `;` before the token that is wrong."""
        if "SEMICOLON" not in self.accepted():
            return False
        between = self.source.text[self.end : _start(wrong)]
        keywords = (*_ITEM_KEYWORDS, "where", "yield", "return", "expect", "costs", "}")
        return "\n" in between or str(wrong) in keywords

    def unexpected(self, wrong: Token) -> None:
        accepted = self.accepted()
        span = self.span(wrong)
        if str(wrong)[:1] in ('"', "`") and wrong.type == "":
            line_end = self.source.text.find("\n", span.start)
            until = line_end if line_end >= 0 else len(self.source.text)
            what = "string" if str(wrong) == '"' else "name"
            until -= self.source.text[until - 1] == "\r"
            span = Span(self.source, span.start, until)
            self.findings.error("E0104", span, f"this {what} is not closed on its line")
        elif wrong == "}" and self.blocks[-1].brace is None:
            self.findings.error("E0101", span, "there is no open brace that this could close")
        elif wrong == "collage" and "_COLLAGE" not in accepted and len(self.blocks) == 1:
            self.findings.error("E0103", span, "the edition is said once, on the first line")
        else:
            message = f"expected {expectation(accepted, self.start)}, found `{_shortened(wrong)}`"
            self.findings.error("E0101", span, message, hint(str(wrong), accepted, self.start))

    def unexpected_end(self, wrong: Token) -> None:
        block = self.blocks[-1]
        if block.brace is not None:
            self.unclosed(block)
        elif "SEMICOLON" in self.accepted():
            at = Span(self.source, self.end, self.end)
            message = f"expected `;` after this {self.statement(block)}"
            self.findings.error("E0101", at, message, "insert `;` here")
            self.feed(self.synthetic("SEMICOLON", ";", self.end))
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
        """Go on after the statement that the wrong token is in."""
        start = _start(wrong)
        at = self.next_statement(block, start)
        self.restart(block)
        self.go_on_at(max(at, start + 1) if block.first is None and at == start else at)
        block.first = None

    def next_statement(self, block: _Block, start: int) -> int:
        """
        Past the next `;` or the next balanced block; or at the brace that closes the block
        we are in; or at an item that begins a line.
        """
        depth = 0
        for found in _RESYNC.finditer(self.source.text, start):
            match found[0]:
                case "{":
                    depth += 1
                case "}" if depth == 0:
                    if block.brace is not None:
                        return found.start()
                    several = _BRACES.match(self.source.text, found.start())
                    return several.end() if several else found.end()
                case "}":
                    depth -= 1
                    if depth == 0:
                        return found.end()
                case ";" if depth == 0:
                    return found.end()
                case word if word in _ITEM_KEYWORDS and self.start == "file":
                    return found.start()
        return len(self.source.text)

    def restart(self, block: _Block) -> None:
        """Forget the statement that is being read."""
        self.open = 0
        if block.first is None:
            return
        span = Span(self.source, _start(block.first), self.end)
        self.broken.append(syntax.Broken(_defined_name(span), span))
        state = self.parser.parser_state
        self.parser.parser_state = ParserState(
            state.parse_conf, state.lexer, block.states, block.values
        )

    def close_all(self) -> None:
        """Forget the statements that are being read, and close every open brace."""
        while len(self.blocks) > 1:
            self.restart(self.blocks[-1])
            self.feed(self.synthetic("RBRACE", "}", self.end))
        self.restart(self.blocks[-1])
        self.blocks[-1].first = None

    def go_on_at(self, offset: int) -> None:
        self.parser.lexer_thread.state.line_ctr.char_pos = offset  # type: ignore[union-attr]

    # What messages say.

    def accepted(self) -> frozenset[str]:
        return frozenset(self.parser.accepts())  # type: ignore[no-untyped-call]

    def statement(self, block: _Block) -> str:
        """What to call the statement that is being read."""
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
            case _ if self.start == "graph_text":
                return "node"
            case _:
                owner = self.blocks[-2].first if len(self.blocks) > 1 else None
                return {"pattern": "binding", "graph": "node"}.get(str(owner), "setting")

    def span(self, token: Token) -> Span:
        start = _start(token)
        return Span(self.source, start, start + len(token))

    def character(self, offset: int) -> Token:
        return Token("", self.source.text[offset], offset)

    def synthetic(self, type_: str, text: str, offset: int) -> Token:
        return Token(type_, text, offset, 1, 1, 1, 1, offset)


def _start(token: Token) -> int:
    assert token.start_pos is not None
    return token.start_pos


def _shortened(token: Token) -> str:
    return str(token) if len(token) <= 30 else f"{token[:30]}…"


def _defined_name(span: Span) -> str:
    """The name that a broken statement would have defined; empty where it cannot be seen."""
    words = _DEFINED.match(span.text)
    return "" if words is None else words[1] or words[2]
