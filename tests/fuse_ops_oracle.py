"""
What TVM's FuseOps makes of a graph, group by group, as sets of the graph's nodes.

FuseOps gives the result of a group new names. So each call of a PrimFunc is first given a PrimFunc
of its own, by which it is known from then on: `LegalizeOps` keeps the variables of operator calls,
and FuseOps the names of PrimFuncs. A projection is known by what it takes. No tuple is bound to a
variable there, so one counts as inside where it lies between two nodes inside.

Constants are not folded and dead calls stay: FuseOps sees the operator calls that we see.
"""

import random
from collections.abc import Iterator
from typing import Any

import tvm
from tvm import relax

from collage_dsl.frontend.to_relax import to_relax
from collage_dsl.graph import Form, Graph, Kind, OpSet, members
from collage_dsl.graph.between import absorbable
from collage_dsl.language import parse_graph
from tests.tvm_oracle import with_values

_LEGALIZE = tvm.transform.Sequential(
    [relax.transform.LegalizeOps(), relax.transform.AnnotateTIROpPattern()]
)

Known = dict[Any, int | None]
"""The node that each variable stands for; None for a constant that is handed to a function."""


class FusedGraph:
    """
    A graph after FuseOps. `groups` are those of two or more operator calls, in the order in which
    they are called; `kinds` are what TVM's own analysis says of each call, by node.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.node_of: dict[str, int] = {}
        self.kinds: dict[int, Kind] = {}
        legal = self._with_own_callees(_LEGALIZE(to_relax(with_values(graph))))
        self.module = relax.transform.FuseOps()(legal)
        found = tuple(self._all_groups())
        self.groups = tuple(g for g in found if (g & graph.calls).bit_count() > 1)

    # Before: a PrimFunc for each call.

    def _with_own_callees(self, module: tvm.IRModule) -> tvm.IRModule:
        function = module[self.graph.name]
        builder = relax.BlockBuilder()
        blocks = [
            type(block)([self._with_own_callee(builder, module, each) for each in block.bindings])
            for block in function.body.blocks
        ]
        body = relax.SeqExpr(blocks, function.body.body)
        result = builder.get()
        result[self.graph.name] = relax.Function(function.params, body, function.ret_ty)
        return relax.transform.Normalize()(result)

    def _with_own_callee(self, builder: Any, module: tvm.IRModule, binding: Any) -> Any:
        value = binding.value
        if not _is_call_tir(value):
            return binding
        node = self.graph.index(binding.var.name)
        callee = module[value.args[0]].with_attr("global_symbol", binding.var.name)
        own = builder.add_func(callee, binding.var.name)
        assert own.name_hint not in self.node_of, f"`{binding.var.name}` has another's PrimFunc"
        self.node_of[own.name_hint] = node
        self.kinds[node] = Kind(int(callee.attrs["op_pattern"]))
        call = relax.Call(value.op, [own, *value.args[1:]], value.attrs, value.ty_args)
        return relax.VarBinding(binding.var, call)

    # After: the functions that calls were moved to.

    def _all_groups(self) -> Iterator[OpSet]:
        main = self.module[self.graph.name]
        known: Known = {param: self.graph.index(param.name) for param in main.params}
        for binding in _bindings(main):
            value = binding.value
            callee = value.op if isinstance(value, tvm.ir.Call) else None
            if isinstance(callee, tvm.ir.GlobalVar):
                arguments = [known.get(argument) for argument in value.args]
                inside, known[binding.var] = self._group(self.module[callee], arguments)
                yield inside | absorbable(self.graph, inside)
            else:
                known[binding.var] = self._node(value, known)

    def _group(self, function: Any, arguments: list[int | None]) -> tuple[OpSet, int | None]:
        """The nodes of a function that FuseOps made, and which of them is its result."""
        known: Known = dict(zip(function.params, arguments, strict=True))
        inside = 0
        for binding in _bindings(function):
            node = known[binding.var] = self._node(binding.value, known)
            assert node is not None, f"no node is `{binding.value}`"
            inside |= 1 << node
        return inside, known[function.body.body]

    def _node(self, value: Any, known: Known) -> int | None:
        """The node that a bound expression stands for."""
        if _is_call_tir(value):
            return self.node_of[value.args[0].name_hint]
        if isinstance(value, tvm.ir.TupleGetItem):
            return self._projection(known[value.tuple_value], value.index)
        return known.get(value)

    def _projection(self, source: int | None, place: int) -> int:
        assert source is not None, "a projection of a constant"
        nodes = self.graph.nodes
        (found,) = (
            i
            for i in members(self.graph.users_of[source])
            if nodes[i].form is Form.PROJECTION and nodes[i].value == place
        )
        return found


def _is_call_tir(value: Any) -> bool:
    return isinstance(value, tvm.ir.Call) and value.op == tvm.ir.Op.get("relax.call_tir")


def _bindings(function: Any) -> list[Any]:
    return [binding for block in function.body.blocks for binding in block.bindings]


# Graphs whose branches meet again, which FuseOps fuses with all that is between.


def branching_graph(generator: random.Random, calls: int) -> Graph:
    """
    A graph of `calls` calls or somewhat more with one result, to which all of them lead:
    elementwise calls, transpositions, matrix products, and splits that are joined again.
    """
    return parse_graph(_Branches(generator).text(calls))


class _Branches:
    def __init__(self, generator: random.Random) -> None:
        self.generator = generator
        self.lines: list[str] = []
        self.values = ["x", "y"]
        self.unused: list[str] = []

    def text(self, calls: int) -> str:
        while len(self.lines) < calls:
            makers = (self.unary, self.binary, self.transposed, self.product, self.halves)
            (make,) = self.generator.choices(makers, (6, 8, 3, 2, 1))
            self.values.append(make())
            self.unused.append(self.values[-1])
        while len(self.unused) > 1:
            first, second = self.generator.sample(self.unused, 2)
            self.unused = [name for name in self.unused if name not in (first, second)]
            self.unused.append(self.add(f"add({first}, {second})"))
        (result,) = self.unused
        ends = ("sum({}) [axis = [1]]", "nn.softmax({})", "exp({})")
        (end,) = self.generator.choices(ends, (5, 1, 4))
        result = self.add(end.format(result))
        inputs = "x: f32[4, 4]; y: f32[4, 4]; w: f32[4, 4];"
        return f"{inputs} {' '.join(self.lines)} return {result};"

    def add(self, expression: str) -> str:
        self.lines.append(f"n{len(self.lines)} = {expression};")
        return f"n{len(self.lines) - 1}"

    def pick(self) -> str:
        name = self.generator.choice(
            self.values[-4:] if self.generator.random() < 0.8 else self.values
        )
        self.unused = [each for each in self.unused if each != name]
        return name

    def unary(self) -> str:
        return self.add(f"{self.generator.choice(('nn.relu', 'exp', 'sigmoid'))}({self.pick()})")

    def binary(self) -> str:
        op = self.generator.choice(("add", "multiply", "maximum"))
        return self.add(f"{op}({self.pick()}, {self.pick()})")

    def transposed(self) -> str:
        return self.add(f"permute_dims({self.pick()})")

    def product(self) -> str:
        return self.add(f"matmul({self.generator.choice('xy')}, w)")

    def halves(self) -> str:
        pair = self.add(f"split({self.pick()}) [indices_or_sections = 2, axis = 0]")
        upper, lower = self.add(f"{pair}.0"), self.add(f"{pair}.1")
        fields = self.add(f"({upper}, {lower})")
        return self.add(f"concat({fields}) [axis = 0]")
