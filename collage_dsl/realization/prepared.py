"""
Weights that kernels take in another form, made once.

A variant of a kernel may take a weight packed or transformed. Then the module gets another
PrimFunc, which makes that form from the model's own weight. It runs when the model is loaded, so
that a saved model has only its own weights; or it runs now.
"""

from collections.abc import Mapping, Sequence
from itertools import count, takewhile
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from collage_dsl.backends.tvm_target import host_target
from collage_dsl.realization.alignment import with_any_alignment
from collage_dsl.realization.entry import PREPARE, entry_name, prepared_name
from collage_dsl.realization.place import unique
from collage_dsl.realization.replaced import global_var, typed, with_body, with_functions

_CALL_TIR = tvm.ir.Op.get("relax.call_tir")


def with_prepared(
    module: tvm.IRModule, prepared: Mapping[Any, Mapping[int, Any]], *, at_load: bool
) -> tvm.IRModule:
    """
    `module` in which the PrimFuncs `prepared`, by global variable, get some operands from another
    PrimFunc: that at the position of the operand.

    A constant operand is prepared once. With `at_load`, a function `PREPARE` of the module makes
    those of the entry functions (see `realization.entry`), and other functions take them; an entry
    function itself prepares them in each call, for those who know only that. Otherwise the
    prepared constants are in the module.
    """
    if not any(prepared.values()):
        return module
    makers = _makers(module, prepared)
    renewed = {hash(callee): _renewed(module, callee) for callee in prepared}
    entries = _entries(module) if at_load else []
    lifted: dict[str, _Lifted] = {}
    called: set[int] = set()
    for var, function in module.functions_items():
        if isinstance(function, relax.Function):
            name = str(var.name_hint)
            preparer = _Preparer(module, makers, renewed, name in entries)
            module[var] = preparer.visit_expr(function)
            called |= preparer.called
            lifted[name] = preparer.lifted
    if any(lifted.values()):
        _lift(module, [lifted[name] for name in entries])
    unused = {hash(maker) for maker in makers.values()} - called
    kept = {
        renewed.get(hash(var), var): each
        for var, each in module.functions_items()
        if hash(var) not in unused
    }
    return with_functions(module, kept)


def _makers(
    module: tvm.IRModule, prepared: Mapping[Any, Mapping[int, Any]]
) -> dict[tuple[int, int], Any]:
    """
    The global variables of the functions in `prepared`, which are put into `module`, equal ones
    once: by the hash of the variable of the PrimFunc, and the position of the operand.
    """
    taken = {str(var.name_hint) for var in module.get_global_vars()}
    known: dict[int, list[tuple[Any, Any]]] = {}
    makers = {}
    for callee, functions in prepared.items():
        for position, function in functions.items():
            alike = known.setdefault(tvm_ffi.structural_hash(function), [])
            found = [var for same, var in alike if tvm_ffi.structural_equal(same, function)]
            if not found:
                name = unique(f"{callee.name_hint}_weight_{position}", taken)
                found = [_added(module, name, with_any_alignment(function))]
                alike.append((function, found[0]))
            makers[hash(callee), position] = found[0]
    return makers


def _entries(module: tvm.IRModule) -> list[str]:
    """The names of the entry functions, in order."""
    names = {str(var.name_hint) for var in module.get_global_vars()}
    return list(takewhile(names.__contains__, map(entry_name, count())))


_Lifted = Mapping[tuple[int, int], tuple[Any, Any]]
"""
What is to be made at load for a function: a variable for it, and the call that makes it, by the
hashes of what makes it and of the constant that it is made of.
"""


@relax.expr_functor.mutator
class _Preparer(relax.PyExprMutator):
    """
    Prepares the operands that have one of the `makers`, by the hash of the variable of the called
    PrimFunc, and the position. The PrimFunc has one of the `renewed` variables then. `lifted` are
    variables for what is to be made at load, and how.
    """

    def __init__(
        self,
        module: tvm.IRModule,
        makers: Mapping[tuple[int, int], Any],
        renewed: Mapping[int, Any],
        at_load: bool,
    ) -> None:
        super().__init__(module)
        self.module = module
        self.makers = makers
        self.renewed = renewed
        self.at_load = at_load
        self.lifted: dict[tuple[int, int], tuple[Any, Any]] = {}
        self.called: set[int] = set()
        self.compiled: dict[int, Any] = {}

    def visit_call_(self, call: Any) -> Any:
        if call.op != _CALL_TIR:
            return self.visit_expr_post_order(call)
        callee, operands = call.args[0], list(call.args[1].fields)
        wanted = [self.makers.get((hash(callee), position)) for position in range(len(operands))]
        if not any(wanted):
            return self.visit_expr_post_order(call)
        new = [self.visit_expr(operand) for operand in operands]
        made = [
            operand if maker is None else self.prepared(maker, operand)
            for operand, maker in zip(new, wanted, strict=True)
        ]
        callee = self.renewed[hash(callee)]
        changed = relax.Call(call.op, [callee, relax.Tuple(made)], call.attrs, call.ty_args)
        return typed(changed, call.ty)

    def prepared(self, maker: Any, operand: Any) -> Any:
        if isinstance(operand, tvm.ir.GenericConst) and not self.at_load:
            return self.evaluated(maker, operand)
        self.called.add(hash(maker))
        call = relax.call_tir(maker, [operand], result_type(self.module[maker]))
        if not isinstance(operand, tvm.ir.GenericConst):
            return self.builder_.emit(call)
        key = hash(maker), hash(operand)
        if key not in self.lifted:
            weight = relax.Var(f"weight_{len(self.lifted)}", result_type(self.module[maker]))
            self.lifted[key] = weight, call
        return self.lifted[key][0]

    def evaluated(self, maker: Any, operand: Any) -> Any:
        """The constant that a maker makes of the constant `operand`."""
        function = self.module[maker]
        if hash(maker) not in self.compiled:
            self.compiled[hash(maker)] = _compiled(function)
        type_ = result_type(function)
        made = tvm.runtime.empty([int(extent) for extent in type_.shape], str(type_.dtype))
        self.compiled[hash(maker)](operand.value, made)
        return relax.const(made)


def result_type(function: Any) -> Any:
    """The type of the tensor that a PrimFunc writes to its last parameter."""
    buffer = function.params[-1]
    return relax.TensorType([int(extent) for extent in buffer.shape], str(buffer.dtype))


def _compiled(function: Any) -> Any:
    module = tvm.IRModule({"prepare": function.with_attr("global_symbol", "prepare")})
    return tvm.compile(module, host_target())["prepare"]


def _renewed(module: tvm.IRModule, callee: Any) -> Any:
    """A variable of the same name, of the type that the function in `module` has now."""
    if not any(var.same_as(callee) for var in module.get_global_vars()):
        return callee
    return global_var(callee.name_hint, module[callee].ty)


def _added(module: tvm.IRModule, name: str, function: Any) -> Any:
    """The global variable of `function`, which is put into `module`."""
    variable = global_var(name, function.ty)
    module[variable] = function.with_attr("global_symbol", name)
    return variable


def _lift(module: tvm.IRModule, lifted: Sequence[_Lifted]) -> None:
    """
    Put `PREPARE` into `module`, which makes what is `lifted` from each of the entry functions. Put
    in functions that take it, and entry functions that call both.
    """
    calls = {key: call for each in lifted for key, (_, call) in each.items()}
    builder = relax.BlockBuilder()
    with builder.function(PREPARE, []):
        made = {key: builder.emit(call) for key, call in calls.items()}
        sets = [relax.Tuple([made[key] for key in each]) for each in lifted]
        builder.emit_func_output(relax.Tuple([builder.emit(each) for each in sets]))
    prepare = _added(module, PREPARE, builder.get()[PREPARE])
    for position, each in enumerate(lifted):
        if each:
            weights = [weight for weight, _ in each.values()]
            _take(module, position, weights, prepare)


def _take(module: tvm.IRModule, position: int, weights: Sequence[Any], prepare: Any) -> None:
    """Make the entry function at a position one that calls another, which takes `weights`."""
    name = entry_name(position)
    main = module[name]
    inner = with_body(main, main.body, [*main.params, *weights])
    inner_var = _added(module, prepared_name(position), relax.utils.copy_with_new_vars(inner))
    params = [relax.Var(param.name, param.ty) for param in main.params]
    builder = relax.BlockBuilder()
    with builder.function(name, params):
        made = builder.emit(relax.TupleGetItem(builder.emit(relax.Call(prepare, [])), position))
        fields = [builder.emit(relax.TupleGetItem(made, i)) for i in range(len(weights))]
        builder.emit_func_output(builder.emit(relax.Call(inner_var, [*params, *fields])))
    module[name] = relax.utils.copy_with_new_vars(builder.get()[name])
