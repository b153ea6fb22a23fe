"""
Make the parser tables of the grammar file with lark, as plain data.

The build of the package runs this file by its path, so it imports nothing from the package.
The parser that reads the tables does not need lark.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lark import Lark
from lark.grammar import Rule, Symbol
from lark.parsers.lalr_analysis import Reduce, Shift

_GROUPS = 90
"""The most terminals in one regular expression; more than the grammar has."""


def made_from(grammar: Path) -> list[str]:
    """The texts of the grammar and of this module: the tables depend on both."""
    return [grammar.read_text("utf-8"), Path(__file__).read_text("utf-8")]


def kept(grammar: Path, start: str) -> dict[str, Any]:
    """The tables in the form in which a file keeps them."""
    return {"made_from": made_from(grammar), **tables(grammar.read_text("utf-8"), start)}


def tables(grammar: str, start: str) -> dict[str, Any]:
    """
    The LALR(1) tables for the start symbol `start`. States are numbered from 0.

    Each of `states` has: its action at each terminal (n: go to state n; -1 - n: reduce by rule
    n), the next state for each nonterminal, and the number of its scanner. Each of `rules` has:
    the nonterminal, the length, the name of the tree node, how its children are made (None if
    the value is that of the only child), and whether it makes a list of children, not a node.
    """
    lark = Lark(grammar, parser="lalr", lexer="contextual", start=start, maybe_placeholders=True)
    parser: Any = lark.parser.parser
    lexer: Any = lark.parser.lexer
    table = parser._parse_table
    order = _order(table.states, table.start_states[start])
    rules = sorted({rule for _, rule in _actions(table.states, Reduce)}, key=str)
    origins = {str(rule.origin.name) for rule in rules}
    single = _single(rules)
    scanners = sorted({_scanner(lexer.lexers[state], lark) for state in order})
    numbers = {state: at for at, state in enumerate(order)}
    codes = {rule: -1 - at for at, rule in enumerate(rules)}
    states = []
    for state in order:
        coded = {
            str(name): numbers[to] if does is Shift else codes[to]
            for name, (does, to) in sorted(table.states[state].items())
        }
        states.append(
            [
                {name: code for name, code in coded.items() if name not in origins},
                {name: code for name, code in coded.items() if name in origins},
                scanners.index(_scanner(lexer.lexers[state], lark)),
            ]
        )
    return {
        "start": 0,
        "end": numbers[table.end_states[start]],
        "states": states,
        "rules": [_rule(rule, single) for rule in rules],
        "kept": sorted({name for rule in rules for name in _kept_terminals(rule)}),
        "skipped": sorted(
            t.pattern.to_regexp() for t in lark.terminals if t.name in _skipped(lark)
        ),
        "scanners": scanners,
        "any": _scanner(lexer.root_lexer, lark),
        "spellings": _spellings(lark),
    }


def _actions(states: Any, kind: Any) -> Iterator[tuple[str, Any]]:
    for row in states.values():
        yield from ((name, to) for name, (does, to) in row.items() if does is kind)


def _order(states: Any, start: int) -> list[int]:
    """The states in the order reached from the first: the same grammar gives the same file."""
    found = {start: None}
    waiting = [start]
    for state in waiting:
        reached = [
            to for _, (does, to) in sorted(states[state].items(), key=_name) if does is Shift
        ]
        waiting += [to for to in dict.fromkeys(reached) if to not in found]
        found.update(dict.fromkeys(reached))
    return waiting


def _name(item: tuple[str, Any]) -> str:
    return str(item[0])


def _skipped(lark: Lark) -> frozenset[str]:
    return frozenset(map(str, lark.ignore_tokens))


def _scanner(lexer: Any, lark: Lark) -> tuple[Any, ...]:
    """
    The terminals in the order of trial, each with its regular expression; and for terminals that
    also match keywords, the terminal of each keyword.
    """
    skipped = _skipped(lark)
    tried = (terminal for terminal in lexer.scanner.terminals if terminal.name not in skipped)
    terminals = tuple((str(one.name), one.pattern.to_regexp()) for one in tried)
    assert len(terminals) <= _GROUPS
    words = (
        (str(name), str(one.pattern.value), str(one.name))
        for name, callback in lexer.callback.items()
        for one in callback.scanner.terminals
    )
    return terminals, tuple(sorted(words))


def _spellings(lark: Lark) -> dict[str, str]:
    """The text of each terminal that is always written the same way."""
    written = {}
    for terminal in sorted(lark.terminals, key=str):
        value = terminal.pattern.value
        if terminal.pattern.type == "str":
            written[terminal.name] = value
        elif "(?!" in value:  # a keyword
            written[terminal.name] = value.split("(?!")[0]
    return written


def _rule(rule: Rule, single: set[str]) -> list[Any]:
    children = _children(rule, single)
    name = str(rule.alias or rule.origin.name)
    is_list = name.startswith("_")
    is_one = len(children) == 1 and isinstance(children[0], int)
    passes = is_one and (rule.origin.name in single or rule.options.expand1)
    found = children[0] if passes else children
    return [str(rule.origin.name), len(rule.expansion), name, found, is_list]


def _children(rule: Rule, single: set[str]) -> list[Any]:
    """
    The children made from the parts of a rule: the place of a part that is one child, `[place]`
    for a part that is several children, None for an absent part.
    """
    absent = "".join(str(int(flag)) for flag in rule.options.empty_indices or ())
    before = (
        [len(ones) for ones in absent.split("0")] if absent else [0] * (len(rule.expansion) + 1)
    )
    found: list[Any] = []
    for at, part in enumerate(rule.expansion):
        found += [None] * before[at]
        if _is_kept(part):
            found.append([at] if _is_list(part, single) else at)
    return found + [None] * before[-1]


def _is_kept(part: Symbol) -> bool:
    return not (part.is_term and getattr(part, "filter_out", False))


def _is_list(part: Symbol, single: Iterable[str]) -> bool:
    return not part.is_term and part.name.startswith("_") and part.name not in single


def _kept_terminals(rule: Rule) -> list[str]:
    return [str(part.name) for part in rule.expansion if part.is_term and _is_kept(part)]


def _single(rules: Iterable[Rule]) -> set[str]:
    """The nonterminals that make no node themselves and always give exactly one child."""
    single = {str(rule.origin.name) for rule in rules if rule.origin.name.startswith("_")}
    while True:
        lists = {
            str(rule.origin.name)
            for rule in rules
            if rule.origin.name in single and not _is_one_child(_children(rule, single))
        }
        if not lists:
            return single
        single -= lists


def _is_one_child(children: list[Any]) -> bool:
    return len(children) == 1 and isinstance(children[0], int)
