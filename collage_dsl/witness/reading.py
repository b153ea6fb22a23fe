"""Read a pattern in one way: which optional calls are there, which alternative, which operator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from collage_dsl.graph import Kind
from collage_dsl.graph.operators import CALL_TIR, Operator, is_commutative, operators
from collage_dsl.language.reasoning.conclusions.premises import what_is_said
from collage_dsl.rules.flattening import together
from collage_dsl.rules.parts import in_chain
from collage_dsl.rules.pattern import (
    Anything,
    Call,
    Either,
    Excluded,
    FieldOf,
    Flat,
    ListOf,
    Number,
    Operand,
    PathFrom,
    Pattern,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
    TupleOfEach,
)
from collage_dsl.witness.tape import Tape

MOST_PARTS = 2_000

_WRITTEN = (("list",), ("number",))
_NO_TENSOR = TupleOf | Number | ListOf


class NoReadingError(Exception):
    """The choices do not go together."""


@dataclass(frozen=True, slots=True)
class Part:
    """
    One node of the graph that is built: a call of `op`, a tuple, a projection, a number or a list.
    Where `says` is None it is any value. `of` are its operands, which are parts before it; `frame`
    is the use of a pattern in which it is written.
    """

    says: Call | TupleOf | FieldOf | Number | ListOf | None = None
    of: tuple[int, ...] = ()
    op: str = ""
    frame: int = 0
    name: str = ""
    """That of the parameter or the equation, if it has one in the outermost pattern."""

    is_literal: bool = False
    """Whether it is a list or a number, of which the pattern says nothing."""

    @property
    def is_inside(self) -> bool:
        return isinstance(self.says, Call | TupleOf | FieldOf)


@dataclass(frozen=True, slots=True)
class Use:
    """A use of `pattern`, by itself or in another one, and the parts that its names stand for."""

    pattern: Pattern
    operands: Mapping[str, Operand] = field(default_factory=dict)
    caller: int | None = None
    names: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Reading:
    """One way to read a pattern. The operands of a part come before it."""

    tape: Tape
    uses: list[Use]
    parts: list[Part] = field(default_factory=list)
    constants: set[int] = field(default_factory=set)
    excluded: list[tuple[int, Excluded]] = field(default_factory=list)
    results: tuple[int, ...] = ()

    @classmethod
    def of(cls, pattern: Pattern, tape: Tape) -> "Reading":
        """`pattern` with the choices on `tape`. Raises NoReadingError if they do not fit."""
        reading = cls(tape, [Use(pattern)])
        names = pattern.results
        reading.results = tuple(reading.read(0, Reference(name)) for name in names)
        reading.check()
        return reading

    def check(self) -> None:
        if not self.parts[self.results[0]].is_inside:
            raise NoReadingError
        for use in self.uses:
            if any(not p.optional and p.name not in use.names for p in use.pattern.parameters):
                raise NoReadingError
        if any(self.parts[at].is_inside for at in self.constants):
            raise NoReadingError
        for at, excluded in self.excluded:
            part = self.parts[at]
            while isinstance(part.says, FieldOf):
                part = self.parts[part.of[0]]
            if part.op in excluded.ops or (at in self.constants and excluded.constants):
                raise NoReadingError
            if part.op and operators()[part.op].kinds <= set(excluded.kinds):
                raise NoReadingError

    def add(self, part: Part) -> int:
        if len(self.parts) >= MOST_PARTS:
            raise NoReadingError
        self.parts.append(part)
        return len(self.parts) - 1

    def read(self, use: int, operand: Operand) -> int:
        """The part that `operand` stands for, which is written in the use `use` of a pattern."""
        match operand:
            case Reference(name):
                return self.named(use, name)
            case Anything():
                return self.anything(use)
            case Number() | ListOf():
                return self.add(Part(operand, frame=use))
            case Flat():
                return self.tree(use, operand)
            case Call(operands=inner, optional=optional):
                if optional and self.tape.choose(2):
                    return self.read(use, inner[0])
                op = self.one_of(called_operators(operand))
                of = tuple(self.operand(use, op, at, each) for at, each in enumerate(inner))
                may_turn = is_commutative(op) and len(of) == 2 and not operand.ordered
                if may_turn and self.tape.rarely(1):
                    of = of[::-1]
                part = Part(operand, of, op, use)
                same = [at for at, each in enumerate(self.parts) if replace(each, name="") == part]
                chosen = self.tape.rarely(len(same))
                return same[chosen - 1] if chosen else self.add(part)
            case PatternCall(operands=inner, optional=optional):
                if optional and self.tape.choose(2):
                    return self.read(use, inner[0])
                return self.called(use, operand)
            case TupleOf(fields):
                of = tuple(self.read(use, each) for each in fields)
                return self.add(Part(operand, of, frame=use))
            case TupleOfEach(each, least, most):
                count = least + self.tape.choose(most - least + 1)
                of = tuple(self.read(use, each) for _ in range(count))
                return self.add(Part(TupleOf((each,) * count), of, frame=use))
            case FieldOf(of=tuple_):
                return self.add(Part(operand, (self.read(use, tuple_),), frame=use))
            case Repeat(call, least, most):
                return self.read(use, in_chain(call, least + self.tape.choose(most - least + 1)))
            case PathFrom():
                return self.path(use, operand)
            case Either(choices):
                return self.read(use, choices[self.tape.choose(len(choices))])

    def operand(self, use: int, op: str, place: int, operand: Operand) -> int:
        """The part that a call of `op` takes at `place`. A list and a number are of one call."""
        if isinstance(operand, Anything) and operators()[op].takes[place : place + 1] in _WRITTEN:
            return self.add(Part(frame=use, is_literal=True))
        return self.read(use, operand)

    def anything(self, use: int) -> int:
        """A value of its own, as a rule; it may also be one that is there already."""
        there = [
            at
            for at, part in enumerate(self.parts)
            if not (part.is_literal or isinstance(part.says, _NO_TENSOR))
        ]
        chosen = self.tape.rarely(len(there))
        return there[chosen - 1] if chosen else self.add(Part(frame=use))

    def one_of(self, choices: Sequence[str]) -> str:
        if not choices:
            raise NoReadingError
        return choices[self.tape.choose(len(choices))]

    def called(self, caller: int, call: PatternCall) -> int:
        names = (parameter.name for parameter in call.pattern.parameters)
        operands = dict(zip(names, call.operands, strict=True))
        self.uses.append(Use(call.pattern, operands, caller))
        return self.named(len(self.uses) - 1, call.pattern.result)

    def named(self, at: int, name: str) -> int:
        """A name stands for one part."""
        use = self.uses[at]
        if name in use.names:
            return use.names[name]
        parameter = use.pattern.parameter(name)
        if parameter is None:
            value = next(b.value for b in use.pattern.bindings if b.name == name)
            found = self.read(at, value)
        elif use.caller is None:
            found = self.add(Part(frame=at, name=name))
        else:
            found = self.read(use.caller, use.operands[name])
        if parameter and parameter.constant:
            self.constants.add(found)
        if parameter and parameter.excluded:
            self.excluded.append((found, parameter.excluded))
        if use.caller is None and self.parts[found].says and not self.parts[found].name:
            self.parts[found] = replace(self.parts[found], name=name)
        use.names[name] = found
        return found

    def tree(self, use: int, flat: Flat) -> int:
        """
        The operands of a flat call one after the other, in the order written; or the values, and
        then what the numbers make together. What is below 0 may be subtracted, or be a sign.
        """
        total = together(flat)
        is_below = total.number < 0 and flat.op in ("add", "multiply")
        ways = ["written"] + ["together"] * (len(flat.numbers) > 1) + ["turned"] * is_below
        way = self.tape.choose(len(ways)) if flat.values else 0
        operands = flat.values if way else flat.operands
        value, *others = (self.read(use, each) for each in operands)
        for other in others:
            value = self.in_tree(use, flat, flat.op, value, other)
        if not way:
            return value
        op, number = flat.op, total.number
        if ways[way] == "turned" and op == "multiply":
            value = self.in_tree(use, flat, "negative", value)
        if ways[way] == "turned":
            op, number = "subtract" if op == "add" else op, -number
        return self.in_tree(use, flat, op, value, self.read(use, Number(number, total.tolerance)))

    def in_tree(self, use: int, flat: Flat, op: str, *of: int) -> int:
        says = Call((op,), (Anything(),) * len(of), shared=flat.shared)
        return self.add(Part(says, of, op, use))

    def path(self, use: int, path: PathFrom) -> int:
        """A path that does not part."""
        count = path.least + self.tape.choose(path.most - path.least + 1)
        value = self.read(use, path.origin)
        for _ in range(count):
            op = self.one_of(path_operators(path.ops, path.kinds))
            operands = operators()[op].operands or ("x",)
            more = len(operands) - operators()[op].optional - 1
            others = tuple(self.operand(use, op, 1 + at, Anything()) for at in range(more))
            says = Call(path.ops, (Anything(),) * (1 + more), kinds=path.kinds)
            turned = operators()[op].takes[1:] == ("tensor",) and self.tape.rarely(1)
            of = (*others, value) if turned else (value, *others)
            value = self.add(Part(says, of, op, use))
        return value


# Operators.

_USUAL = (
    *("nn.relu", "exp", "tanh", "add", "multiply", "permute_dims", "squeeze", "sum", "matmul"),
    *("nn.softmax", "nn.conv2d", "sort", "where", "concat", "strided_slice", "reshape"),
)
"""The operators that people expect first in an example of a kind."""


def called_operators(call: Call) -> tuple[str, ...]:
    """
    The operators that a call may be of; of those of a kind that take tensors, one of each group of
    which the same is known.
    """
    return (*call.ops, *_of_kinds(call.kinds, len(call.operands)))


@cache
def path_operators(ops: tuple[str, ...], kinds: tuple[Kind, ...]) -> tuple[str, ...]:
    """Operators that may be on a path: they take a tensor first."""
    named = [op for op in ops if operators()[op].takes[:1] != ("tuple",)]
    return (*named, *_of_kinds(kinds, 1), *_of_kinds(kinds, 2))


@cache
def _of_kinds(kinds: tuple[Kind, ...], count: int) -> tuple[str, ...]:
    found = [op for op in operators().values() if not op.kinds.isdisjoint(kinds)]
    fit = [op for op in found if op.takes and _takes_tensors(op, count)]
    names = sorted(op.name for op in fit)
    usual = [name for name in _USUAL if name in names]
    others = sorted((name for name in names if name not in usual), key=lambda name: "." in name)
    groups: dict[object, str] = {}
    for name in (*usual, *others):
        operator = operators()[name]
        groups.setdefault((what_is_said(name), operator.takes, operator.gives), name)
    return tuple(groups.values())


def _takes_tensors(operator: Operator, count: int) -> bool:
    """Whether it can be called with so many operands, of which the first is a tensor."""
    if operator.name == CALL_TIR or operator.operands is None:
        return False
    most = len(operator.operands)
    return most - operator.optional <= count <= most and operator.takes[0] in ("tensor", "any")
