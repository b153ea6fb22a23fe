"""
Run the LALR(1) parser tables that table_maker.py made.

lark makes the tables and could run them, but takes four times as long. This parser saves time
because it keeps no words that are not in the tree and no lines and columns, and because it
remembers a chain of reductions (`a` to product, sum, comparison, expression) as one step.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from collage_dsl.language.syntax.nodes import Token, Tree

END = "$END"


@dataclass(frozen=True, slots=True)
class Scanner:
    """Finds the next token among some terminals."""

    expression: re.Pattern[str]
    words: dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Rule:
    """
    A reduction of `size` parts to `origin`. `children` are the places of the parts that become
    children; None if the value is that of one part, at `only`.
    """

    origin: str
    size: int
    name: str
    only: int
    children: tuple[Any, ...] | None
    is_simple: bool
    is_list: bool


@dataclass(slots=True)
class Stacks:
    """The parser's stacks: the states, and the value and start of each."""

    states: list[int]
    values: list[Any]
    starts: list[int]

    def without_last(self) -> "Stacks":
        return Stacks(self.states[:-1], self.values[:-1], self.starts[:-1])

    def copy(self) -> "Stacks":
        return Stacks(self.states[:], self.values[:], self.starts[:])


class Tables:
    """The tables of one grammar; table_maker.py describes their parts."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.start: int = data["start"]
        self.end: int = data["end"]
        self.actions: list[dict[str, int]] = [actions for actions, _, _ in data["states"]]
        self.gotos: list[dict[str, int]] = [gotos for _, gotos, _ in data["states"]]
        self.rules = [_rule(*rule) for rule in data["rules"]]
        self.kept: frozenset[str] = frozenset(data["kept"])
        self.spellings: dict[str, str] = data["spellings"]
        self.skipped = "(?:" + "|".join(data["skipped"]) + ")*+"
        self.over = re.compile(self.skipped)
        self.chains: dict[tuple[int, int, str], int] = {}
        self._scanners = data["scanners"]
        self._any = data["any"]
        self._numbers = [number for _, _, number in data["states"]]
        self._made: dict[int, Scanner] = {}
        self.scanners: list[Scanner | None] = [None] * len(self.actions)

    def scanner(self, state: int) -> Scanner:
        """The scanner for the terminals allowed in `state`; made on first use."""
        number = self._numbers[state]
        if number not in self._made:
            self._made[number] = self._scanner(*self._scanners[number])
        self.scanners[state] = self._made[number]
        return self._made[number]

    @cached_property
    def any_terminal(self) -> Scanner:
        return self._scanner(*self._any)

    def _scanner(self, terminals: list[Any], words: list[Any]) -> Scanner:
        alternatives = "|".join(f"(?P<{name}>{pattern})" for name, pattern in terminals) or "(?!)"
        by_terminal: dict[str, dict[str, str]] = {}
        for name, word, other in words:
            by_terminal.setdefault(name, {})[word] = other
        return Scanner(re.compile(f"{self.skipped}(?:{alternatives})"), by_terminal)


def _rule(origin: str, size: int, name: str, found: Any, is_list: bool) -> Rule:
    if isinstance(found, int):
        return Rule(origin, size, name, found - size, None, False, is_list)
    places = tuple(
        None if part is None else part - size if isinstance(part, int) else [part[0] - size]
        for part in found
    )
    is_simple = all(isinstance(part, int) for part in places)
    return Rule(origin, size, name, 0, places, is_simple, is_list)


class Machine:
    """One parse of one text; `at` is the position of the next token."""

    def __init__(self, tables: Tables, text: str) -> None:
        self.tables = tables
        self.text = text
        self.at = 0
        self.end = 0
        self.stacks = Stacks([tables.start], [], [])

    def scan(self) -> tuple[str, int, int]:
        """
        The kind, start and end of the next token if it is allowed here.

        The kind is END at the end of the text, and empty if no allowed token begins here.
        """
        tables = self.tables
        state = self.stacks.states[-1]
        scanner = tables.scanners[state] or tables.scanner(state)
        found = scanner.expression.match(self.text, self.at)
        if found is None:
            return self.nothing_fits()
        kind = found.lastgroup
        assert kind is not None
        start, end = found.span(kind)
        if kind in scanner.words:
            kind = scanner.words[kind].get(found[kind], kind)
        self.at = end
        return kind, start, end

    def nothing_fits(self) -> tuple[str, int, int]:
        over = self.tables.over.match(self.text, self.at)
        start = over.end() if over else self.at
        return (END if start == len(self.text) else "", start, start)

    def token(self, start: int) -> Token:
        """The token at `start`, allowed here or not; a character if no token begins there."""
        scanner = self.tables.any_terminal
        found = scanner.expression.match(self.text, start)
        if found is None:
            return Token("", self.text[start], start)
        kind = found.lastgroup or ""
        return Token(scanner.words.get(kind, {}).get(found[0], kind), found[0], start)

    def feed(self, kind: str, start: int, end: int, text: str) -> bool:
        """Take one token; False if it is not allowed. `text` is used only for kept tokens."""
        tables = self.tables
        actions, gotos, chains = tables.actions, tables.gotos, tables.chains
        stacks = self.stacks
        states = stacks.states
        while True:
            state = states[-1]
            action = actions[state].get(kind)
            if action is None:
                return False
            if action >= 0:
                states.append(action)
                stacks.values.append(Token(kind, text, start) if kind in tables.kept else None)
                stacks.starts.append(start)
                self.end = end
                return True
            rule = tables.rules[~action]
            if rule.size == 1 and rule.children is None:
                key = (states[-2], state, kind)
                states[-1] = chains.get(key) or self.chain(key)
            else:
                self.reduce(rule)
                states.append(gotos[states[-1]][rule.origin])

    def chain(self, key: tuple[int, int, str]) -> int:
        """The state after all consecutive reductions that keep the value."""
        below, state, kind = key
        while True:
            action = self.tables.actions[state].get(kind)
            if action is None or action >= 0:
                break
            rule = self.tables.rules[~action]
            if rule.size != 1 or rule.children is not None:
                break
            state = self.tables.gotos[below][rule.origin]
        self.tables.chains[key] = state
        return state

    def reduce(self, rule: Rule) -> None:
        """Replace the last values by one value. The caller adds the next state."""
        size = rule.size
        stacks = self.stacks
        values, starts = stacks.values, stacks.starts
        children = rule.children
        if children is None:
            value = values[rule.only]
        else:
            if rule.is_simple:
                found = [values[place] for place in children]
            else:
                found = self.children(children)
            if rule.is_list:
                value = found
            else:
                start = starts[-size] if size else self.end
                value = Tree(rule.name, found, start, self.end)
        if size:
            del stacks.states[-size:]
            del values[-size:]
            if size > 1:
                del starts[1 - size :]
        else:
            starts.append(self.end)
        values.append(value)

    def children(self, places: tuple[Any, ...]) -> list[Any]:
        values = self.stacks.values
        found: list[Any] = []
        for place in places:
            if place is None:
                found.append(None)
            elif isinstance(place, int):
                found.append(values[place])
            elif found:
                found += values[place[0]]
            else:
                found = values[place[0]]  # safe to extend: this list is used nowhere else
        return found

    def finish(self) -> Tree | None:
        """The tree of the whole text; None if the text may not end here."""
        tables, states = self.tables, self.stacks.states
        while True:
            action = tables.actions[states[-1]].get(END)
            if action is None:
                return None
            rule = tables.rules[~action]
            self.reduce(rule)
            states.append(tables.gotos[states[-1]][rule.origin])
            if states[-1] == tables.end:
                tree: Tree = self.stacks.values[-1]
                return tree

    def accepted(self) -> frozenset[str]:
        """The kinds of tokens that are allowed here."""
        return frozenset(filter(self.accepts, self.tables.actions[self.stacks.states[-1]]))

    def accepts(self, kind: str) -> bool:
        tables, states = self.tables, self.stacks.states[:]
        while True:
            action = tables.actions[states[-1]].get(kind)
            if action is None:
                return False
            if action >= 0:
                return True
            rule = tables.rules[~action]
            if rule.size:
                del states[-rule.size :]
            states.append(tables.gotos[states[-1]][rule.origin])
            if kind == END and states[-1] == tables.end:
                return True
