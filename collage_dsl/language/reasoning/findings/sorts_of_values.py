"""Tell whether each value of a pattern is a tensor, a tuple, a shape or a list."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from typing import assert_never

from collage_dsl.graph import Kind
from collage_dsl.graph.operators import Operator, operators
from collage_dsl.language.reasoning.findings.value_sorts import (
    TAKEN,
    List,
    Shape,
    Sort,
    Tensor,
    Tuple,
    as_many,
    by_attribute,
    by_flags,
    common,
    most_results,
)
from collage_dsl.language.reasoning.patterns.kinds_of_calls import of_kinds
from collage_dsl.language.reasoning.patterns.pattern_shape import always_there
from collage_dsl.rules.condition import Compare, Rank
from collage_dsl.rules.pattern import (
    Anything,
    Call,
    Either,
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


def refused_by_kinds(call: Call, at: int, given: Sort) -> bool:
    """Whether no operator that a call by kind may be takes what is `given` at the place `at`."""
    if given is None or not call.kinds or Kind.OPAQUE in call.kinds:
        return False
    known = of_kinds(call.ops, call.kinds, len(call.operands))
    taken = [TAKEN.get(operator.takes[at]) for operator in known if at < len(operator.takes)]
    is_known = len(taken) == len(known) and None not in taken
    return is_known and all(type(each) is not type(given) for each in taken)


def gives_no_tuple(call: Call) -> bool:
    """Whether each operator that a call by kind may be gives a tensor."""
    known = of_kinds(call.ops, call.kinds, len(call.operands))
    is_known = bool(call.kinds) and Kind.OPAQUE not in call.kinds
    return is_known and all(operator.gives == "tensor" for operator in known)


def taken(call: Call, at: int) -> Sort:
    """What all operators of `call` take at the place `at`; None for those of a kind."""
    if call.kinds:
        return None
    known = (operators()[op].takes for op in call.ops)
    return reduce(common, (TAKEN.get(takes[at]) if at < len(takes) else None for takes in known))


def taken_on(path: PathFrom) -> Sort:
    """What all operators of a path take from it, each at every place; None for those of a kind."""
    words = [word for op in path.ops for word in operators()[op].takes or ("any",)]
    return None if path.kinds else reduce(common, map(TAKEN.get, words))


@dataclass(frozen=True, slots=True)
class _Use:
    """A use of a name, which must be of that sort there. It may be part of every match."""

    name: str
    sort: Sort
    always: bool


@dataclass(frozen=True, slots=True)
class Sorts:
    """
    The values of one pattern. `called` has those of patterns that it calls, by `id`, as far as
    they were needed; patterns with the same `called` share the work.
    """

    pattern: Pattern
    called: dict[int, "Sorts"]
    known: dict[int, Sort] = field(default_factory=dict)
    """By the `id` of an operand."""
    names: dict[str, Sort] = field(default_factory=dict)
    demanded: dict[str, Sort] = field(default_factory=dict)
    """What the values that are bound must be, because of their uses."""

    @classmethod
    def of_pattern(cls, pattern: Pattern, called: dict[int, "Sorts"]) -> "Sorts":
        if id(pattern) not in called:
            called[id(pattern)] = found = cls(pattern, called)
            found.names.update(found.parameters())
            for binding in pattern.bindings:
                found.names[binding.name] = found.of(binding.value)
        return called[id(pattern)]

    def parameters(self) -> Mapping[str, Sort]:
        """What parameters must be, because they are constants or because of their uses."""
        parameters, bindings = self.pattern.parameters, self.pattern.bindings
        always = always_there(parameters, bindings, (self.pattern.result,))
        results = self.pattern.results
        sure: dict[str, Sort] = {}
        uses: dict[str, list[Sort]] = {result: [None] for result in results}
        for binding in reversed(bindings):
            name = binding.name
            self.demanded[name] = sure.get(name) or reduce(common, uses.get(name, [None]))
            found = self.uses(binding.value, self.demanded[name], always=name in always)
            for use in reversed(tuple(found)):
                uses.setdefault(use.name, []).append(use.sort)
                if use.always and use.sort is not None:
                    sure[use.name] = use.sort
        sure |= {parameter.name: Tensor() for parameter in parameters if parameter.constant}
        names = [parameter.name for parameter in parameters]
        sorts = {name: sure.get(name) or reduce(common, uses.get(name, [None])) for name in names}
        return {**sorts, **self.measured(sorts)} if Tuple() in sorts.values() else sorts

    def measured(self, found: Mapping[str, Sort]) -> Mapping[str, Sort]:
        """The parameters that are tensors and no tuples, because the pattern says their ranks."""
        asked = (where.condition for where in self.pattern.conditions)
        ranks = (c.left for c in asked if isinstance(c, Compare))
        names = (rank.of for rank in ranks if isinstance(rank, Rank))
        return {name: Tensor() for name in names if isinstance(found.get(name), Tuple)}

    def uses(self, operand: Operand, needed: Sort, *, always: bool) -> Iterator["_Use"]:
        """
        The uses of names in `operand`, which must be what is `needed`. They are `always` part of a
        match, or only of some.
        """
        match operand:
            case Reference(name):
                yield _Use(name, needed, always)
            case Call(operands=operands, optional=optional) | PatternCall(_, operands, optional):
                for at, inner in enumerate(operands):
                    sort, is_there = self.needed(operand, at), always and not (optional and at)
                    sort = common(sort, needed) if optional and at == 0 else sort
                    yield from self.uses(inner, sort, always=is_there)
            case Flat(_, operands):
                for inner in operands:
                    yield from self.uses(inner, Tensor(), always=always)
            case TupleOf(fields):
                for inner in fields:
                    yield from self.uses(inner, None, always=always)
            case TupleOfEach(inner):
                yield from self.uses(inner, None, always=always)
            case PathFrom(_, inner, least):
                sort = taken_on(operand)
                sort = sort if least else common(sort, needed)
                yield from self.uses(inner, sort, always=always)
            case FieldOf(inner):
                yield from self.uses(inner, Tuple(), always=always)
            case Repeat(call, least):
                call = call if least else replace(call, optional=True)
                yield from self.uses(call, needed, always=always)
            case Either(choices):
                found = [tuple(self.uses(one, needed, always=always)) for one in choices]
                in_all = frozenset.intersection(*map(frozenset, found))
                for use in chain.from_iterable(found):
                    yield use if use in in_all else replace(use, always=False)
            case Anything() | Number() | ListOf():
                pass
            case _:
                assert_never(operand)

    def needed(self, call: Call | PatternCall, at: int) -> Sort:
        """What the operand of `call` at the place `at` must be."""
        if isinstance(call, Call):
            return taken(call, at)
        return self.inside(call.pattern).names[call.pattern.parameters[at].name]

    def inside(self, pattern: Pattern) -> "Sorts":
        return Sorts.of_pattern(pattern, self.called)

    def of(self, operand: Operand) -> Sort:
        if id(operand) not in self.known:
            self.known[id(operand)] = self._of(operand)
        return self.known[id(operand)]

    def _of(self, operand: Operand) -> Sort:
        match operand:
            case Reference(name):
                return self.names.get(name)
            case Call(operands=operands, optional=optional) | PatternCall(_, operands, optional):
                result = self.result(operand)
                return common(self.of(operands[0]), result) if optional else result
            case TupleOf(fields):
                return Tuple(tuple(map(self.of, fields)))
            case TupleOfEach(field, least, most):
                return Tuple((self.of(field),) * least) if least == most else Tuple(most=most)
            case FieldOf(inner, index):
                of_operator = Tensor() if isinstance(inner, Call) else None
                return _field(self.of(inner), index) or of_operator
            case Repeat(call, least):
                result = self.result(call)
                return result if least else common(self.of(call.operands[0]), result)
            case Either(choices):
                return reduce(common, map(self.of, choices))
            case Number() | Flat():
                return Tensor()
            case ListOf():
                return List()
            case PathFrom(_, origin, least):
                result = self.result(last_call(operand))
                return result if least else common(self.of(origin), result)
            case Anything():
                return None
            case _:
                assert_never(operand)

    def result(self, call: Call | PatternCall) -> Sort:
        """What `call` gives if it is present."""
        if isinstance(call, PatternCall):
            return self.inside(call.pattern).names[call.pattern.result]
        if call.kinds:
            return None
        return reduce(common, (self.given(operators()[op], call) for op in call.ops))

    def most_results(self, operand: Operand) -> int | None:
        """How many values a call gives at most, as one or as a tuple; None if it is not known."""
        match operand:
            case Reference(name):
                values = (b.value for b in self.pattern.bindings if b.name == name)
                return next(map(self.most_results, values), None)
            case Call(ops=ops, optional=False, kinds=()):
                most = [most_results(op, operand) for op in ops]
                known = [number for number in most if number is not None]
                return max(known) if len(known) == len(most) else None
            case PatternCall(pattern=pattern, optional=False):
                return self.inside(pattern).most_results(Reference(pattern.result))
            case _:
                return None

    def given(self, operator: Operator, call: Call) -> Sort:
        match operator.gives:
            case "tensor":
                return Tensor()
            case "shape":
                return Shape()
            case int() as count:
                return Tuple((Tensor(),) * count)
            case None if operator.name == "meshgrid":
                return as_many(self.of(call.operands[0]))
            case None if operator.name == "unique":
                return by_flags(call.operands[2:5])
            case None:
                return by_attribute(operator.name, call)
            case _:
                assert_never(operator.gives)


def last_call(path: PathFrom) -> Call:
    """A call of one of the operators of a path, of which nothing but the operator is known."""
    return Call(path.ops, (_ANYTHING,), kinds=path.kinds)


_ANYTHING = Anything()
"""One for all, because what is known of operands is remembered by their `id`."""


def _field(of: Sort, index: int) -> Sort:
    if isinstance(of, Tuple) and of.fields is not None and index < len(of.fields):
        return of.fields[index]
    return None
