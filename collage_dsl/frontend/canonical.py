"""
Bring a function of Relax to canonical form: the form that `from_onnx` makes of an ONNX model.

The bindings are written again, in order. What the importers of TVM write in another form is
replaced (`canonical_rules`); batch norms, and multiplications and additions of constants, are
folded as those of ONNX are (`onnx_affine`). No value changes, but for rounding.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from collage_dsl.frontend.arrays import array_of
from collage_dsl.frontend.bindings import Bindings, is_constant, is_leaf, operator
from collage_dsl.frontend.canonical_call import OldCall, passed_on
from collage_dsl.frontend.canonical_products import batch_norm
from collage_dsl.frontend.canonical_rules import RULES
from collage_dsl.frontend.dataflow import is_value
from collage_dsl.frontend.onnx_affine import Affine, Linear
from collage_dsl.frontend.onnx_names import named
from collage_dsl.frontend.onnx_site import Value, layout_of
from collage_dsl.frontend.onnx_values import Values

Functions = Callable[[Any], Any | None]
"""Returns the PrimFunc that a global variable names; None if it names none."""


@dataclass(frozen=True, slots=True)
class Canonical:
    """A module, and the names of the variables and of some constants of one of its functions."""

    module: tvm.IRModule
    names: Mapping[Any, str]


def canonical(
    module: tvm.IRModule, name: str, names: Mapping[Any, str], functions: Functions
) -> Canonical | None:
    """
    `module` with its function `name` in canonical form, if the body of that is one dataflow block
    without functions inside; else None. Variables and constants have the names in `names`, and
    else their own. `functions` finds the functions that are called.
    """
    function = module[name]
    blocks = function.body.blocks
    if len(blocks) != 1 or not isinstance(blocks[0], relax.DataflowBlock):
        return None
    if any(isinstance(each.value, relax.Function | relax.If) for each in blocks[0].bindings):
        return None
    writer = _Writer(function, names, functions)
    written = tvm.IRModule(module.functions, attrs=module.attrs, global_infos=module.global_infos)
    written.update_func(module.get_global_var(name), writer.write())
    _remove_unused(written, _called(function))
    return Canonical(written, writer.names)


def _remove_unused(module: tvm.IRModule, called: set[Any]) -> None:
    """Remove the private functions among those `called` that nothing calls any more."""
    used = set[Any]().union(*map(_called, module.functions.values()))
    for var in called - used:
        if "global_symbol" not in (module[var].attrs or {}):
            del module[var]


def _called(function: Any) -> set[Any]:
    found: set[Any] = set()
    tvm_ffi.structural_walk(function, (tvm.ir.GlobalVar, found.add))
    return found


class _Writer(Values):
    """Writes the bindings of one function again, each value when it is first used."""

    def __init__(self, function: Any, names: Mapping[Any, str], functions: Functions) -> None:
        super().__init__(opset=0)
        self.function = function
        self.functions = functions
        self.old = Bindings(function)
        self.given = {hash(expr): name for expr, name in names.items()}
        self.keys: dict[int, str] = {}
        """The name of each variable and constant of the old function, by its hash."""
        for var in (*function.params, *(each.var for each in self.old.live)):
            self.add_name(var)

    def write(self) -> Any:
        function = self.function
        for var in function.params:
            name = self.keys[hash(var)]
            self.values[name] = var
            self.names[var] = name
        attrs = dict(function.attrs.items()) if function.attrs else {}
        # As private, the function gets no name beside the one that its attributes say.
        params, is_pure = list(function.params), bool(function.is_pure)
        with self.builder.function("main", params, attrs=attrs, pure=is_pure, private=True):
            with self.builder.dataflow():
                for binding in self.old.live:
                    self.step(binding)
                returned = self.builder.emit_output(self.written(self.old.result))
            self.builder.emit_func_output(returned)
        return named(self.builder.get()["main"], self.names)

    def add_name(self, var: Any) -> None:
        wanted = self.given.get(hash(var)) or str(var.name)
        name, count = wanted, 0
        while name in self.uses:
            count += 1
            name = f"{wanted}_{count}"
        self.keys[hash(var)] = name
        self.uses[name] = self.old.uses[hash(var)]

    def key(self, leaf: Any) -> str:
        """The name of a variable or constant of the old function."""
        leaf = self.old.resolved(leaf)
        if hash(leaf) not in self.keys:
            name = self.keys[hash(leaf)] = f"constant {len(self.keys)}"
            self.values[name] = array_of(leaf.value)
            self.literals[name] = leaf
            self.uses[name] = self.old.uses[hash(leaf)]
            if hash(leaf) in self.given:
                self.names[leaf] = self.given[hash(leaf)]
        return self.keys[hash(leaf)]

    # Bindings.

    def step(self, binding: Any) -> None:
        name, value = self.keys[hash(binding.var)], binding.value
        if isinstance(binding, relax.MatchCast):
            self.values[name] = self.builder.match_cast(self.written(value), binding.ty)
            self.names[self.values[name]] = name
        elif not self.is_read_by_its_field(binding):
            made = self.made(value, name)
            self.store(name, self.written(value) if made is None else made)

    def made(self, value: Any, name: str) -> Value | None:
        """The canonical form of a value; None if it has that form already."""
        if isinstance(value, tvm.ir.TupleGetItem):
            return self.field(value, name)
        if not isinstance(value, tvm.ir.Call):
            return None
        rule = RULES.get(operator(value))
        made = rule(OldCall(self, value, name)) if rule else None
        return self.builder.normalize(made) if isinstance(made, tvm.ir.Call) else made

    def store(self, name: str, made: Value) -> None:
        if isinstance(made, Affine | Linear | np.ndarray):
            self.values[name] = made
            return
        self.values[name] = self.bind(made if is_value(made) else self.emit(made), name)

    def is_read_by_its_field(self, binding: Any) -> bool:
        """Whether a binding is a call that is replaced where its first field is taken."""
        takes_first = self.old.projected.get(hash(binding.var)) == {0}
        if not takes_first or not isinstance(binding.value, tvm.ir.Call):
            return False
        op = operator(binding.value)
        return op == "nn.dropout" or (op == "nn.batch_norm" and self.is_norm(binding.value))

    def is_norm(self, call: Any) -> bool:
        """Whether a batch norm is for inference, with constant parameters, by the axis 1."""
        return (
            not call.attrs.training
            and int(call.attrs.axis) == 1
            and layout_of(call.args[0].ty) is not None
            and all(is_leaf(self.old.resolved(each)) for each in call.args)
            and all(self.constant(self.key(each)) is not None for each in call.args[1:])
        )

    def field(self, value: Any, name: str) -> Value | None:
        binding = self.old.bound.get(hash(self.old.resolved(value.tuple_value)))
        if binding is None or not self.is_read_by_its_field(binding):
            return None
        call = OldCall(self, binding.value, name)
        return batch_norm(call) if operator(binding.value) == "nn.batch_norm" else passed_on(call)

    def written(self, value: Any) -> Any:
        """`value` with the new values in place of the old ones."""
        value = self.old.resolved(value)
        if is_value(value) or is_constant(value):
            return self.expr(self.key(value))
        match value:
            case tvm.ir.Call():
                arguments = [self.written(each) for each in value.args]
                made = relax.Call(value.op, arguments, value.attrs, value.ty_args)
            case tvm.ir.Tuple():
                made = relax.Tuple([self.written(each) for each in value.fields])
            case tvm.ir.TupleGetItem():
                made = relax.TupleGetItem(self.written(value.tuple_value), value.index)
            case _:
                return value
        return self.builder.normalize(made)
