"""
Weights that kernels take in another form, made once.

A variant of a kernel may take a weight packed or transformed. Then the module gets another
PrimFunc, which makes that form from the model's own weight. It runs when the model is loaded, so
that a saved model has only its own weights; or it runs now.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tvm
from tvm import relax

from collage_dsl.backends.tvm import host_target
from collage_dsl.realization.alignment import with_any_alignment
from collage_dsl.realization.entry import MAIN, PREPARE, PREPARED_MAIN
from collage_dsl.realization.place import unique

_CALL_TIR = tvm.ir.Op.get("relax.call_tir")


def with_prepared(
    module: tvm.IRModule, prepared: Mapping[Any, Mapping[int, Any]], *, at_load: bool
) -> tvm.IRModule:
    """
    `module` in which the PrimFuncs `prepared`, by global variable, get some operands from another
    PrimFunc: that at the position of the operand.

    A constant operand is prepared once. With `at_load`, a function `PREPARE` of the module makes
    those of `main`, and `PREPARED_MAIN` takes them; `main` itself prepares them in each call, for
    those who know only `main`. Otherwise the prepared constants are in the module.
    """
    if not any(prepared.values()):
        return module
    taken = {str(var.name_hint) for var in module.get_global_vars()}
    makers = {}
    for callee, functions in prepared.items():
        for position, function in functions.items():
            name = unique(f"{callee.name_hint}_weight_{position}", taken)
            makers[hash(callee), position] = _added(module, name, with_any_alignment(function))
    renewed = {hash(callee): _renewed(module, callee) for callee in prepared}
    called: set[int] = set()
    for var, function in module.functions_items():
        if isinstance(function, relax.Function):
            preparer = _Preparer(module, makers, renewed, at_load and var.name_hint == MAIN)
            module[var] = preparer.visit_expr(function)
            called |= preparer.called
            if preparer.lifted:
                _lift(module, module[var], list(preparer.lifted.values()))
    unused = {hash(maker) for maker in makers.values()} - called
    kept = {
        renewed.get(hash(var), var): each
        for var, each in module.functions_items()
        if hash(var) not in unused
    }
    return tvm.IRModule(kept, attrs=module.attrs, global_infos=module.global_infos)


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
        relax.expr._update_type(changed, call.ty)
        return changed

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
    variable = tvm.ir.GlobalVar(callee.name_hint)
    relax.expr._update_type(variable, module[callee].ty)
    return variable


def _added(module: tvm.IRModule, name: str, function: Any) -> Any:
    """The global variable of `function`, which is put into `module`."""
    variable = tvm.ir.GlobalVar(name)
    relax.expr._update_type(variable, function.ty)
    module[variable] = function.with_attr("global_symbol", name)
    return variable


def _lift(module: tvm.IRModule, main: Any, lifted: Sequence[tuple[Any, Any]]) -> None:
    """Put `PREPARE`, `PREPARED_MAIN` and another `main` into `module`."""
    weights = [weight for weight, _ in lifted]
    inner = relax.Function(
        [*main.params, *weights], main.body, main.ret_ty, main.is_pure, main.attrs
    )
    inner_var = _added(module, PREPARED_MAIN, relax.utils.copy_with_new_vars(inner))
    builder = relax.BlockBuilder()
    with builder.function(PREPARE, []):
        made = [builder.emit(call) for _, call in lifted]
        builder.emit_func_output(relax.Tuple(made))
    prepare_var = _added(module, PREPARE, builder.get()[PREPARE])
    params = [relax.Var(param.name, param.ty) for param in main.params]
    builder = relax.BlockBuilder()
    with builder.function(MAIN, params):
        prepared = builder.emit(relax.Call(prepare_var, []))
        fields = [builder.emit(relax.TupleGetItem(prepared, i)) for i in range(len(weights))]
        builder.emit_func_output(builder.emit(relax.Call(inner_var, [*params, *fields])))
    module[MAIN] = relax.utils.copy_with_new_vars(builder.get()[MAIN])
