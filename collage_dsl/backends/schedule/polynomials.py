"""
Simplify indices over sizes that are not known, which TVM's analyzer leaves as they are.

An index becomes a polynomial, in which `p % n` is `p - n * (p // n)`. So `p // n * n + p % n` is
`p` for every `n`. A quotient of a sum is one of each term where the rest is below the divisor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad, Var

from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    integer,
    simplified,
    substitute,
    variables,
)
from collage_dsl.backends.schedule.loops import load

_OPERATIONS = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.FloorDiv, tirx.FloorMod)

Monomial = tuple[int, ...]
"""The numbers of the atoms that are multiplied, in order."""

Polynomial = dict[Monomial, int]
"""The factor of each product of atoms."""


def least_sizes(buffers: Iterable[Buffer]) -> dict[Var, int]:
    """
    What the sizes in the shapes of `buffers` are at least, so that each dimension is at least 1. An
    image that is 6 smaller than another of the size `h` says that `h` is at least 7.
    """
    found: dict[Var, int] = {}
    for extent in [extent for buffer in buffers for extent in buffer.shape]:
        used = variables(extent)
        for variable in used:
            found.setdefault(variable, 1)
        if len(used) == 1:
            (variable,) = used
            while found[variable] < _LARGEST and _at(extent, variable, found[variable]) < 1:
                found[variable] += 1
    return found


_LARGEST = 4096
"""Sizes are not known to be larger than this."""


def _at(extent: Expr, variable: Var, size: int) -> int:
    value = simplified(substitute(extent, {variable: integer(size)}))
    return int(value.value) if isinstance(value, tirx.IntImm) else 1


@dataclass(slots=True)
class Indices:
    """
    Simplifies indices, whose variables are at least 0, or at least what `least` says. `below` has
    those that are below a size.
    """

    below: Mapping[Var, Expr]
    least: Mapping[Var, int]
    atoms: list[Expr] = field(default_factory=list, init=False)
    known: dict[Any, int] = field(default_factory=dict, init=False)
    most: dict[int, Polynomial] = field(default_factory=dict, init=False)
    """What an atom is at most, where that is not the atom itself."""
    signed: set[int] = field(default_factory=set, init=False)
    """The atoms that may be below 0."""
    moved: dict[int, Polynomial] = field(default_factory=dict, init=False)
    """For how much a size is above its least, the size less that."""

    def simplified(self, index: Expr) -> Expr:
        found = self._polynomial(index)
        return index if found is None else self._expression(found)

    def in_reads(self, value: Expr) -> Expr:
        """`value` with simplified indices in all that it reads."""

        def read(access: TensorLoad) -> Expr:
            return load(access.source, *map(self.simplified, access.indices))

        return tvm_ffi.structural_map(value, (TensorLoad, read))

    def steps(self, index: Expr, axes: Sequence[Var]) -> list[int | None] | None:
        """
        How much `index` changes with each of the axes, None for what is no number; None if it does
        not always change by the same.
        """
        found = self._polynomial(index)
        if found is None:
            return None
        factors: dict[Var, list[tuple[Monomial, int]]] = {axis: [] for axis in axes}
        for monomial, times in found.items():
            used = [axis for atom in monomial for axis in axes if axis in self._uses(atom)]
            plain = [axis for axis in used if self.known.get(axis) in monomial]
            if len(used) > 1 or len(plain) < len(used):
                return None
            for axis in used:
                rest = _without(monomial, (self.known[axis],))
                assert rest is not None
                factors[axis].append((rest, times))
        return [_number(each) for each in factors.values()]

    def _uses(self, atom: int) -> set[Var]:
        return variables(self.atoms[atom])

    def _polynomial(self, index: Expr) -> Polynomial | None:
        match index:
            case tirx.IntImm():
                return _constant(int(index.value))
            case Var() if str(index.ty.dtype) == "int64":
                return self._variable(index)
            case _ if isinstance(index, _OPERATIONS):
                one, other = self._polynomial(index.a), self._polynomial(index.b)
                if one is None or other is None:
                    return None
                return self._combined(index, one, other)
            case _:
                return None

    def _combined(self, index: Any, one: Polynomial, other: Polynomial) -> Polynomial | None:
        match index:
            case tirx.Add():
                return _sum(one, other)
            case tirx.Sub():
                return _sum(one, _scaled(other, -1))
            case tirx.Mul():
                return _product(one, other)
        if not other or not self._is_natural(other):
            return None
        if isinstance(index, tirx.Div) and not self._is_natural(one):
            return None
        quotient = self._quotient(one, other)
        if isinstance(index, tirx.FloorMod):
            return _sum(one, _scaled(_product(quotient, other), -1))
        return quotient

    def _variable(self, variable: Var) -> Polynomial:
        number = self._atom(variable, variable)
        if variable in self.least:
            least = _constant(self.least[variable])
            above = self._atom((variable, "above"), variable - self.least[variable])
            self.moved[above] = _sum({(number,): 1}, _scaled(least, -1))
            return _sum({(above,): 1}, least)
        if variable in self.below and number not in self.most:
            end = self._polynomial(self.below[variable])
            if end is not None:
                self.most[number] = _sum(end, _constant(-1))
        return {} if self.most.get(number) == {} else {(number,): 1}

    def _atom(self, key: Any, expression: Expr) -> int:
        if key not in self.known:
            self.known[key] = len(self.atoms)
            self.atoms.append(expression)
        return self.known[key]

    def _quotient(self, dividend: Polynomial, divisor: Polynomial) -> Polynomial:
        """`dividend // divisor`, by whose terms as many are divided as possible."""
        whole, rest = _divided(dividend, divisor)
        is_natural = self._is_natural(rest)
        largest = self._largest(rest)
        if not rest or (is_natural and _is_below(largest, divisor)):
            return whole
        key = (tuple(sorted(rest.items())), tuple(sorted(divisor.items())))
        divided = tirx.floordiv if divisor.keys() == {()} or not is_natural else tirx.truncdiv
        number = self._atom(key, divided(self._expression(rest), self._expression(divisor)))
        if not is_natural:
            self.signed.add(number)
        else:
            most, left = _divided(largest, divisor)
            if left in ({}, _constant(-1)):
                self.most[number] = _sum(most, left)
        return _sum(whole, {(number,): 1})

    def _is_natural(self, value: Polynomial) -> bool:
        """Whether a value is at least 0, as each of its terms."""
        signed = any(atom in self.signed for monomial in value for atom in monomial)
        return not signed and all(times > 0 for times in value.values())

    def _largest(self, value: Polynomial) -> Polynomial:
        """What a value without negative terms is at most."""
        return self._replaced(value, self.most)

    def _expression(self, value: Polynomial) -> Expr:
        plain = self._replaced(value, self.moved)
        total: Expr = None
        for monomial, times in sorted(plain.items(), key=lambda each: (-len(each[0]), each)):
            term = _times(times, [self.atoms[atom] for atom in monomial])
            total = term if total is None else total + term
        return integer(0) if total is None else total

    def _replaced(self, value: Polynomial, atoms: Mapping[int, Polynomial]) -> Polynomial:
        total: Polynomial = {}
        for monomial, times in value.items():
            term = _constant(times)
            for atom in monomial:
                term = _product(term, atoms.get(atom, {(atom,): 1}))
            total = _sum(total, term)
        return total


def _divided(dividend: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
    """A quotient, and the rest that has no term left that the first term of `divisor` divides."""
    first = max(divisor, key=lambda monomial: (len(monomial), monomial))
    whole: Polynomial = {}
    rest = dict(dividend)
    while True:
        found = _first_divided(rest, first, divisor[first])
        if found is None:
            return whole, rest
        whole = _sum(whole, found)
        rest = _sum(rest, _scaled(_product(found, divisor), -1))


def _first_divided(value: Polynomial, first: Monomial, factor: int) -> Polynomial | None:
    """The first term of `value` that `factor` times `first` divides, divided."""
    for monomial, times in value.items():
        left = _without(monomial, first)
        if left is not None and times % factor == 0:
            return {left: times // factor}
    return None


def _is_below(value: Polynomial, limit: Polynomial) -> bool:
    """Whether a value is always below the limit."""
    return all(times >= 0 for times in _sum(limit, _scaled(value, -1), _constant(-1)).values())


def _times(times: int, factors: Iterable[Expr]) -> Expr:
    product: Expr = None if times == 1 else integer(times)
    for factor in factors:
        product = factor if product is None else product * factor
    return integer(times) if product is None else product


def _number(factor: Sequence[tuple[Monomial, int]]) -> int | None:
    """The number that a factor is; None if it depends on sizes."""
    if any(monomial for monomial, _ in factor):
        return None
    return sum(times for _, times in factor)


def _constant(value: int) -> Polynomial:
    return {(): value} if value else {}


def _sum(*parts: Polynomial) -> Polynomial:
    total: Polynomial = {}
    for part in parts:
        for monomial, times in part.items():
            total[monomial] = total.get(monomial, 0) + times
    return {monomial: times for monomial, times in total.items() if times}


def _scaled(value: Polynomial, by: int) -> Polynomial:
    return {monomial: times * by for monomial, times in value.items()}


def _product(one: Polynomial, other: Polynomial) -> Polynomial:
    return _sum(
        *(
            {tuple(sorted((*a, *b))): times * by}
            for a, times in one.items()
            for b, by in other.items()
        )
    )


def _without(monomial: Monomial, atoms: Monomial) -> Monomial | None:
    """The monomial divided by these atoms; None if it has not all of them."""
    left = list(monomial)
    for atom in atoms:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)
