"""
Turn the text of a file into its syntax.

After an error, parsing continues at the next statement, so that one run finds all errors.
"""

import re
from dataclasses import dataclass
from typing import Any

from lark import Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.messages.hints import Hint
from collage_dsl.language.syntax import ast
from collage_dsl.language.syntax.expected import advice, expectation
from collage_dsl.language.syntax.grammar import parser
from collage_dsl.language.syntax.mistakes import NEAR, Place
from collage_dsl.language.syntax.recovery import (
    are_balanced,
    defined_name,
    is_binding_with_let,
    next_statement,
)
from collage_dsl.language.syntax.tokens import token_span
from collage_dsl.language.syntax.tree import Builder
from collage_dsl.language.syntax.whole_text import (
    FENCE,
    check_characters,
    edition_is_known,
    is_small,
)
from collage_dsl.language.syntax.words import ITEM_KEYWORDS
from collage_dsl.memory import uncollected
from collage_dsl.source import Source, Span

MAX_TOKENS = 50_000
"""About 3 000 lines, which can be checked or formatted in three seconds."""
MAX_NESTING = 200

_INSIDE = {"pattern": "binding", "graph": "node", "test": "model"}
_EQUALS = re.compile(r"\s*=")


def parse_file(source: Source, findings: Findings) -> ast.File:
    """The syntax of `source`, without statements whose syntax errors are added to `findings`."""
    if not is_small(source, findings) or not edition_is_known(source, findings):
        return ast.File((), ())
    with uncollected():
        tree, broken = parse_tree(source, "file", findings)
        file = Builder(source, findings).file(tree)
    return ast.File(file.items, (*broken, *file.broken))


def parse_tree(
    source: Source, start: str, findings: Findings
) -> tuple[Tree[Any], tuple[ast.Broken, ...]]:
    """The tree of the statements that can be parsed, and the statements that cannot."""
    check_characters(source, findings)
    run = _Run(source, start, findings)
    with uncollected():
        return run.tree(), tuple(run.broken)


@dataclass(slots=True)
class _Block:
    """
    The inside of an open brace (or the whole text), and the statement being read in it.

    `depth` is the height of the parser's stack before the statement's `first` token.
    """

    brace: Token | None = None
    first: Token | None = None
    depth: int = 0


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
        self.parser: Any = parser(start).parse_interactive(source.text)
        self.blocks = [_Block()]
        self.open = 0
        self.end = 0
        self.tokens = 0
        self.broken: list[ast.Broken] = []

    def tree(self) -> Tree[Any]:
        while True:
            try:
                wrong = self.read()
            except _NestingError:
                self.close_all()
                return self.finish()
            except _TooLargeError:
                return Tree(self.start, [])  # what a part of the text would mean is not asked
            if wrong is None:
                break
            self.recover(wrong)
        try:
            return self.finish()
        except UnexpectedToken:
            self.unexpected_end()
            return self.finish()

    def finish(self) -> Tree[Any]:
        tree: Tree[Any] = self.parser.feed_eof()
        return tree

    def read(self) -> Token | None:
        """Take tokens up to the end (None), or up to the first that is not allowed."""
        try:
            for token in self.parser.lexer_thread.lex(self.parser.parser_state):
                self.tokens += 1
                if self.tokens > MAX_TOKENS:
                    self.too_large(token)
                self.feed(token)
        except UnexpectedToken as problem:
            wrong: Token = problem.token
            return wrong
        except UnexpectedCharacters as problem:
            return Token("", problem.char, problem.pos_in_stream)
        return None

    def go_on_at(self, position: int) -> None:
        """Read the next token at `position`."""
        self.parser.lexer_thread.state.line_ctr.char_pos = position

    def too_large(self, token: Token) -> None:
        message = f"the text has more than {MAX_TOKENS} words and signs"
        at = self.span(token)
        self.findings.error("E0106", at, message, "split it into several files")
        self.broken.append(ast.Broken("", at))
        raise _TooLargeError

    def feed(self, token: Token) -> None:
        self.parser.parser_state.feed_token(token)
        assert token.end_pos is not None
        self.end = max(self.end, token.end_pos)
        block = self.blocks[-1]
        if block.first is None:
            block.first = token
            block.depth = len(self.parser.parser_state.value_stack) - 1
        if token.type in _BRACKETS:
            self.bracket(token)

    def insert(self, kind: str) -> None:
        """Continue as if a token of this kind followed the last one."""
        self.feed(Token(kind, "", self.end, end_pos=self.end))

    def insert_semicolon(self, block: _Block) -> None:
        """Report the semicolon that the statement of `block` lacks, and continue after it."""
        at = Span(self.source, self.end, self.end)
        message = f"expected `;` after this {self.statement(block)}"
        self.findings.error("E0101", at, message, _INSERT)
        self.insert("SEMICOLON")

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
        if self.is_next_item(block, item) and self.is_nested():
            self.nested(block, item)
        elif self.is_next_item(block, item):
            self.unclosed(block)
            self.rewind(block)
            self.go_on_at(self.span(item).start)
            self.close_all()
        elif self.misses_semicolon(wrong):
            self.insert_semicolon(block)
            self.go_on_at(self.span(wrong).start)
        else:
            self.unexpected(wrong)
            self.skip(block, wrong)

    def is_next_item(self, block: _Block, item: Token) -> bool:
        """Whether `item` begins an item of the file after a missing brace, not a binding."""
        if block.brace is None or self.start != "file":
            return False
        text = self.source.text
        is_binding = _EQUALS.match(text, self.span(item).end)
        if self.inside()[-1] in _INSIDE and is_binding_with_let(text, self.span(item).start):
            return False
        return str(item) in ITEM_KEYWORDS and not is_binding

    def is_nested(self) -> bool:
        """Whether no brace is missing, so that an item here stands inside another one."""
        outermost = self.blocks[1].brace
        return outermost is not None and are_balanced(self.source.text, self.span(outermost).start)

    def nested(self, block: _Block, item: Token) -> None:
        """Report an item inside another one, and go on after it."""
        text, span = self.source.text, self.span(item)
        message = f"a `{item}` cannot be inside a {self.inside()[0]}"
        self.findings.error("E0101", span, message, "move it out of the braces")
        self.broken.append(ast.Broken(defined_name(text, span.start, in_braces=False), span))
        self.rewind(block)
        self.go_on_at(next_statement(text, span.end, in_braces=True, in_file=False))

    def misses_semicolon(self, wrong: Token) -> bool:
        """Whether a missing `;` before the wrong token is the likely error."""
        if "SEMICOLON" not in self.accepted():
            return False
        between = self.source.text[self.end : self.span(wrong).start]
        keywords = (*ITEM_KEYWORDS, "where", "yield", "return", "expect", "costs", "}")
        return "\n" in between or str(wrong) in keywords

    def unexpected(self, wrong: Token) -> None:
        accepted = self.accepted()
        span = self.span(wrong)
        if wrong in ('"', "`"):
            what = "string" if wrong == '"' else "name"
            span = self.rest_of_line(span.start)
            hint = ""
            if span.text.startswith(FENCE):
                hint = Hint("remove this line: it is of Markdown", "")
            self.findings.error("E0104", span, f"this {what} is not closed on its line", hint)
        elif wrong == "}" and self.blocks[-1].brace is None:
            self.findings.error("E0101", span, "this `}` has no opening `{`")
        elif wrong == "collage" and len(self.blocks) == 1:
            self.findings.error("E0103", span, "the edition can only be on the first line")
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
            self.insert_semicolon(block)
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
        at = self.span(wrong)
        if block.first is None:
            self.note_broken(block, at)
        self.restart(block)
        self.go_on_at(
            next_statement(
                self.source.text,
                at.end if is_word else at.start,
                in_braces=block.brace is not None,
                in_file=self.start == "file",
            )
        )

    def restart(self, block: _Block) -> None:
        """Give up the statement being read and record it as broken."""
        if block.first is not None:
            self.note_broken(block, Span(self.source, self.span(block.first).start, self.end))
        self.rewind(block)

    def note_broken(self, block: _Block, span: Span) -> None:
        is_inside = block.brace is not None or self.start != "file"
        name = defined_name(self.source.text, span.start, in_braces=is_inside)
        self.broken.append(ast.Broken(name, span))

    def rewind(self, block: _Block) -> None:
        """Return to the state before the statement being read."""
        self.open = 0
        if block.first is not None:
            state = self.parser.parser_state
            del state.value_stack[block.depth :]
            del state.state_stack[block.depth + 1 :]
            block.first = None

    def close_all(self) -> None:
        """Give up all statements being read, and close every open brace."""
        while len(self.blocks) > 1:
            self.restart(self.blocks[-1])
            self.insert("RBRACE")
        self.restart(self.blocks[-1])

    # Words in messages.

    def accepted(self) -> frozenset[str]:
        return frozenset(self.parser.accepts())

    def place(self, wrong: Token, accepted: frozenset[str]) -> Place:
        """What stands around the wrong token."""
        text, at, block = self.source.text, self.span(wrong).start, self.blocks[-1]
        begin = at if block.first is None else self.span(block.first).start
        before = text[begin:at] if at - begin <= NEAR else f"…{text[at - NEAR : at]}"
        after = text[at : at + NEAR]
        around = self.blocks[-2].first if block.brace else block.first
        first = max(begin if around is None else self.span(around).start, at - NEAR)
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
        return token_span(self.source, token)

    def rest_of_line(self, start: int) -> Span:
        line, column = self.source.position(start)
        rest = self.source.line(line)[column - 1 :]
        return Span(self.source, start, start + len(rest))


def _shortened(token: Token) -> str:
    return str(token) if len(token) <= 30 else f"{token[:30]}…"
