"""Replace the bindings that kernels compute by calls of these kernels, in a valid order."""

from collections.abc import Iterator, Sequence
from typing import Any

import tvm
from tvm import relax

from collage_dsl.frontend.dataflow import Dataflow, values_in
from collage_dsl.graph import Form, TupleType, members, opset
from collage_dsl.realization.crossing import Crossing, copies_in, is_on, on_device
from collage_dsl.realization.order import in_order
from collage_dsl.realization.outline import value_of
from collage_dsl.realization.place import Kernel


def rewritten(
    flow: Dataflow, used_later: Sequence[Any], kernels: Sequence[Kernel]
) -> tuple[list[Any], list[int]]:
    """
    The bindings of `flow` with calls of `kernels` in them, and the positions of the kernels in the
    order of their calls.

    Bindings that no kernel computes stay as they are, in their order. A kernel is called in the
    place of its last node, or later if it must be. Variables that are used after a kernel stay the
    same.
    """
    return _Writer(flow, used_later, kernels).write()


class _Writer:
    """
    Puts units in order. A unit is a binding that stays, numbered by its place, or a kernel. The
    numbers of kernels begin after the last binding.
    """

    def __init__(
        self, flow: Dataflow, used_later: Sequence[Any], kernels: Sequence[Kernel]
    ) -> None:
        self.flow = flow
        self.kernels = kernels
        self.size = len(flow.bindings)
        # A kernel that has only shapes to give is none: its bindings stay.
        self.numbered = [each for each in enumerate(kernels) if each[1].outlined.results]
        self.owner = {
            index: self.size + number
            for number, kernel in self.numbered
            for index in members(kernel.inside | opset(kernel.outlined.results))
        }
        self.results = {index for kernel in kernels for index in kernel.outlined.results}
        self.place_of = {hash(b.var): place for place, b in enumerate(flow.bindings)}
        self.first_place: dict[int, int] = {}
        for place, index in enumerate(flow.bound):
            self.first_place.setdefault(index, place)
        self.wanted = {hash(var) for var in used_later} | set(self.shapes_taken())
        self.builder = relax.BlockBuilder()
        self.values: dict[int, Any] = {}
        self.written: list[Any] = []
        self.used_later = frozenset(self.wanted)
        self.same = copies_in(flow.bindings)
        self.given_back: set[int] = set()

    def write(self) -> tuple[list[Any], list[int]]:
        stay = self.staying()
        needs = {place: self.needs_of(place) for place in stay}
        for number, kernel in self.numbered:
            needs[self.size + number] = self.needs_of_kernel(kernel)
        order = []
        for unit in in_order(needs, self.priority):
            if unit < self.size:
                self.keep(unit)
            else:
                order.append(unit - self.size)
                self.call(self.kernels[unit - self.size])
        return self.without_unused_copies(), order

    # The bindings that stay, and the units that each unit needs.

    def shapes_taken(self) -> Iterator[int]:
        """The variables, by their hashes, that kernels take and no kernel gives."""
        for _, kernel in self.numbered:
            for index in kernel.outlined.arguments:
                if index in self.owner and index not in self.results and index in self.first_place:
                    yield hash(self.flow.bindings[self.first_place[index]].var)

    def staying(self) -> list[int]:
        """The places of bindings that stay: in no kernel, or used but not a kernel's result."""
        stay = []
        for place in reversed(range(self.size)):
            binding, index = self.flow.bindings[place], self.flow.bound[place]
            if index in self.owner and not self.is_left_over(place):
                continue
            stay.append(place)
            if not self.is_remade(place):
                self.wanted |= {hash(var) for var in values_in(binding)}
        return stay[::-1]

    def is_left_over(self, place: int) -> bool:
        """Whether a kernel has the node inside, but its variable must still be bound."""
        index = self.flow.bound[place]
        is_first = self.first_place[index] == place
        return hash(self.flow.bindings[place].var) in self.wanted and not (
            is_first and index in self.results
        )

    def is_remade(self, place: int) -> bool:
        """Whether a binding that stays is of a call inside a kernel that gives a tuple."""
        index = self.flow.bound[place]
        is_taken = index in self.owner and self.first_place[index] == place
        node = self.flow.graph.nodes[index]
        return is_taken and node.is_call and isinstance(node.type, TupleType)

    def needs_of(self, place: int) -> set[int]:
        if self.is_remade(place):
            return {self.owner[self.flow.bound[place]]}
        used = values_in(self.flow.bindings[place])
        return {unit for var in used for unit in self.units_of(var)}

    def units_of(self, var: Any) -> set[int]:
        """The units that must come before a variable is used."""
        place = self.place_of.get(hash(var))
        if place is None:
            return set()
        index = self.flow.bound[place]
        if self.first_place[index] == place and index in self.results:
            return {self.owner[index]}
        return {place}

    def needs_of_kernel(self, kernel: Kernel) -> set[int]:
        found: set[int] = set()
        pending = list(kernel.outlined.arguments)
        while pending:
            index = pending.pop()
            if index in self.results:
                found.add(self.owner[index])
            elif index in self.first_place:
                found.add(self.first_place[index])
            else:
                pending.extend(self.flow.graph.nodes[index].inputs)
        return found

    def priority(self, unit: int) -> int:
        """The place that a unit would have if it needed no other."""
        if unit < self.size:
            return unit
        inside = self.kernels[unit - self.size].inside
        return max(self.first_place.get(index, -1) for index in members(inside))

    # Writing the bindings.

    def keep(self, place: int) -> None:
        binding, index = self.flow.bindings[place], self.flow.bound[place]
        if self.is_remade(place):
            binding = relax.VarBinding(binding.var, self.normal(self.fields(index)))
        self.written.append(binding)

    def fields(self, index: int) -> Any:
        """The tuple that a call in a kernel gives, made again from the results of the kernel."""
        graph = self.flow.graph
        by_place = {
            graph.nodes[user].value: self.values[user]
            for user in members(graph.users_of[index])
            if user in self.results and graph.nodes[user].form is Form.PROJECTION
        }
        return relax.Tuple([by_place[place] for place in range(len(by_place))])

    def call(self, kernel: Kernel) -> None:
        found, crossing = kernel.outlined, kernel.crossing
        arguments = [self.value(index) for index in found.arguments]
        if crossing is not None:
            arguments = [self.on(crossing.there, value) for value in arguments]
        dimensions = [relax.ShapeExpr(found.symbols)] if found.symbols else []
        call = self.normal(relax.Call(kernel.callee, [*arguments, *dimensions]))
        count = max(found.results.values()) + 1
        fields = [call]
        if count > 1:
            whole = self.fresh(f"{kernel.callee.name_hint}_results", call)
            fields = [self.normal(relax.TupleGetItem(whole, place)) for place in range(count)]
        for index, place in found.results.items():
            if crossing is not None and is_on(fields[place], crossing.there):
                self.give_back(index, fields[place], crossing)
            else:
                self.bind(index, fields[place])
            fields[place] = self.values[index]  # What gives the same value is that variable.

    def on(self, device: Any, value: Any) -> Any:
        """A copy of a value on another device: one that there is already, else a new one."""
        match value.ty:
            case relax.TupleType() as tuple_type:
                fields = self.fields_of(value, len(tuple_type.fields))
                return self.normal(relax.Tuple([self.on(device, field) for field in fields]))
            case relax.TensorType():
                return self.copied(device, value)
        return value

    def fields_of(self, value: Any, count: int) -> list[Any]:
        if isinstance(value, tvm.ir.Tuple):
            return list(value.fields)
        fields = [self.normal(relax.TupleGetItem(value, place)) for place in range(count)]
        return [self.fresh("field", field) for field in fields]

    def copied(self, device: Any, tensor: Any) -> Any:
        known = self.same.setdefault(hash(tensor), [])
        for each in (tensor, *known):
            if is_on(each, device):
                return each
        known.append(self.fresh("copy", self.normal(relax.op.to_vdevice(tensor, device))))
        return known[-1]

    def give_back(self, index: int, value: Any, crossing: Crossing) -> None:
        """
        Bind a node to a copy of `value`, which is on another device. The copy is planned for its
        device by TVM; a cast gives it the type that it would have without, since `RunCodegen` stops
        at a variable whose type is not that of its value.
        """
        name = self.flow.graph.nodes[index].name
        there = self.fresh(f"{name}_there", value)
        here = self.fresh(f"{name}_here", self.normal(relax.op.to_vdevice(there, crossing.here)))
        place = self.first_place.get(index)
        if place is None:
            var = relax.DataflowVar(name, on_device(value.ty, None))
        else:
            var = self.flow.bindings[place].var
        self.values[index] = var
        self.written.append(relax.MatchCast(var, here, var.ty))
        self.same[hash(var)] = [there]
        self.given_back |= {hash(var), hash(here)}

    def without_unused_copies(self) -> list[Any]:
        """What is written, but for copies that only kernels on the other device would take."""
        if not self.given_back:
            return self.written
        used, kept = set(self.used_later), []
        for binding in reversed(self.written):
            key = hash(binding.var)
            if key in self.given_back and key not in used:
                continue
            used |= {hash(var) for var in values_in(binding)}
            kept.append(binding)
        return kept[::-1]

    def bind(self, index: int, value: Any) -> None:
        """Bind a node to its variable, or to a new one if it had none."""
        place = self.first_place.get(index)
        if place is None:
            self.values[index] = self.fresh(self.flow.graph.nodes[index].name, value)
        else:
            self.values[index] = self.flow.bindings[place].var
            self.written.append(relax.VarBinding(self.values[index], value))

    def fresh(self, name: str, value: Any) -> Any:
        var = relax.DataflowVar(name, value.ty)
        self.written.append(relax.VarBinding(var, value))
        return var

    def value(self, index: int) -> Any:
        """The expression of a node outside all kernels, or of a kernel's result."""
        if index not in self.values:
            place = self.first_place.get(index)
            if place is not None:
                self.values[index] = self.flow.bindings[place].var
            elif self.flow.graph.nodes[index].form is Form.PROJECTION:
                node = self.flow.graph.nodes[index]
                projection = relax.TupleGetItem(self.value(node.inputs[0]), node.value)
                self.values[index] = self.fresh(node.name, self.normal(projection))
            else:
                self.values[index] = value_of(self.flow, index, self.values)
        return self.values[index]

    def normal(self, value: Any) -> Any:
        return self.builder.normalize(value)
