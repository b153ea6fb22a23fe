"""Code of library kernels: TVM's `RunCodegen` with the code generators of our backends."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, sym

from collage_dsl.backends.base import Backend, LibraryBackend
from collage_dsl.backends.onnx_writer import Unsupported
from collage_dsl.backends.registry import NO_BACKEND, find_backend
from collage_dsl.backends.runtime.build import CODE_KIND, KIND, code_module, joined
from collage_dsl.declared import without_faults
from collage_dsl.frontend.attributes import plain
from collage_dsl.frontend.errors import UnsupportedRelax
from collage_dsl.frontend.from_relax import from_relax
from collage_dsl.realization.errors import BuildError
from collage_dsl.realization.kernel import OPTION_PREFIX
from collage_dsl.realization.replaced import typed, with_body, with_relax_functions
from collage_dsl.realization.returning import returning


def with_library_code(module: tvm.IRModule, backends: Sequence[Backend]) -> tvm.IRModule:
    """
    `module` with calls of runtime modules in place of calls of library kernels. Those of our
    backends are one runtime module, in which equal weights are shared. Raises `BuildError` where
    nobody makes the code of one.
    """
    plain = _with_plain_sizes(module)
    callers = _callers(plain)
    with _code_generators(plain, backends):
        made = relax.transform.RunCodegen(entry_functions=callers)(_apart(plain, callers))
    return returning(_with_weights_once(_together(made)), _kernels(module, backends))


def _kernels(module: tvm.IRModule, backends: Sequence[Backend]) -> set[str]:
    """The names of the kernels of which our backends make the code."""
    every = (function.attrs or {} for _, function in module.functions_items())
    kernels = [attrs for attrs in every if attrs.get("Codegen")]
    libraries = {str(attrs["Codegen"]) for attrs in kernels}
    ours = {name for name in libraries if _library(name, backends)}
    return {str(each["global_symbol"]) for each in kernels if str(each["Codegen"]) in ours}


def _with_weights_once(module: tvm.IRModule) -> tvm.IRModule:
    """
    `module` with all runtime modules of ours in one. They have their constants inside, so those
    that `RunCodegen` keeps beside are left out, unless another module may need some.
    """
    every = list((module.attrs or {}).get(_MODULES, []))
    ours = [each for each in every if each.kind == KIND]
    if not ours:
        return module
    others = [each for each in every if each.kind not in (KIND, CODE_KIND)]
    if not others and _CONSTANTS in module.attrs:
        module = module.without_attr(_CONSTANTS)
    return module.with_attr(_MODULES, [*others, joined(ours), code_module()])


_MODULES = "external_mods"
_CONSTANTS = "const_name_to_constant"
"""The attributes of a module with its runtime modules, and with constants that they may need."""


def _with_plain_sizes(module: tvm.IRModule) -> tvm.IRModule:
    """
    `module` with computed sizes as TVM simplifies them: `n + 1` in place of `1 + n`. `RunCodegen`
    does that by itself, and then stops at the call that has the other type.
    """
    analyzer = sym.Analyzer()

    def plain(shape: Any) -> Any:
        values = [analyzer.simplify(each) for each in shape.values]
        is_same = all(one.same_as(other) for one, other in zip(values, shape.values, strict=True))
        return shape if is_same else relax.ShapeExpr(values)

    shapes = (relax.ShapeExpr, plain)
    return with_relax_functions(module, lambda each: tvm_ffi.structural_map(each, shapes))


_CALLED = "collage.called."
"""The prefix of the names by which functions are called while `RunCodegen` runs."""


def _apart(module: tvm.IRModule, names: Sequence[str]) -> tvm.IRModule:
    """
    `module` in which the functions with these names are called as if they were outside of it.
    `RunCodegen` enters each function that is called, and never ends where one calls itself.
    """

    def apart(call: Any) -> Any:
        if not isinstance(call.op, tvm.ir.GlobalVar) or call.op.name_hint not in names:
            return call
        callee = relax.ExternFunc(_CALLED + str(call.op.name_hint))
        return _calling(callee, call, [call.ty])

    return _with_calls(module, apart)


def _together(module: tvm.IRModule) -> tvm.IRModule:
    """`module` with what `_apart` has changed as it was."""

    def together(call: Any) -> Any:
        name = str(call.op.global_symbol) if isinstance(call.op, relax.ExternFunc) else ""
        if not name.startswith(_CALLED):
            return call
        return _calling(module.get_global_var(name.removeprefix(_CALLED)), call)

    return _with_calls(module, together)


def _with_calls(module: tvm.IRModule, change: Callable[[Any], Any]) -> tvm.IRModule:
    calls = (tvm.ir.Call, change)
    return with_relax_functions(module, lambda each: tvm_ffi.structural_map(each, calls))


def _calling(callee: Any, call: Any, types: Sequence[Any] = ()) -> Any:
    """`call` of `callee`."""
    return typed(relax.Call(callee, call.args, call.attrs, types or None, call.span), call.ty)


@contextmanager
def _code_generators(module: tvm.IRModule, backends: Sequence[Backend]) -> Iterator[None]:
    """
    Have `RunCodegen` find the backends of the kernels in `module` (`relax.ext.NAME`), and
    afterwards what it found before.
    """
    attributes = (function.attrs or {} for _, function in module.functions_items())
    names = {str(attrs["Codegen"]) for attrs in attributes if attrs.get("Codegen")}
    ours = [backend for name in sorted(names) if (backend := _library(name, backends))]
    before = {each.name: _registered(each.name) for each in ours}
    try:
        for each in ours:
            _register(each)
        yield
    finally:
        for name, function in before.items():
            if function is None:
                tvm_ffi.registry.remove_global_func(_generator(name))
            else:
                tvm_ffi.register_global_func(_generator(name), function, override=True)


_OURS: set[str] = set()
"""The compilers whose code generators `offer_code_generator` has registered."""


def offer_code_generator(backend: LibraryBackend) -> None:
    """
    Have a plain `RunCodegen` ask `backend` for the code of its kernels, from now on; but not
    where somebody else has registered a code generator of that name.
    """
    if backend.name in _OURS or _registered(backend.name) is None:
        _OURS.add(backend.name)
        _register(backend)


def _registered(name: str) -> Any:
    return tvm_ffi.get_global_func(_generator(name), allow_missing=True)


def _register(backend: LibraryBackend) -> None:
    def codegen(functions: Sequence[Any], _options: Any, _constant_names: Any) -> list[Any]:
        made = [_compiled(backend, function) for function in functions]
        return [*made, code_module()] if any(each.kind == KIND for each in made) else made

    tvm_ffi.register_global_func(_generator(backend.name), codegen, override=True)


def _callers(module: tvm.IRModule) -> list[str]:
    """The functions in which kernels of libraries may be called; TVM looks at public ones only."""
    return [
        var.name_hint
        for var, each in module.functions_items()
        if isinstance(each, relax.Function) and not _is_kernel(each)
    ]


def _is_kernel(function: Any) -> bool:
    attrs = function.attrs or {}
    return any(attrs.get(name) for name in ("Codegen", "Primitive"))


def _generator(name: str) -> str:
    return f"relax.ext.{name}"


def _library(name: str, backends: Sequence[Backend]) -> LibraryBackend | None:
    """
    The backend of a compiler; None where it is not one of ours, and TVM knows it. Raises
    `BuildError` where nobody does.
    """
    try:
        backend = find_backend(name, backends)
    except NO_BACKEND as error:
        if tvm_ffi.get_global_func(_generator(name), allow_missing=True) is None:
            raise BuildError(f"nothing makes kernels of the library `{name}`: {error}") from error
        return None
    if not isinstance(backend, LibraryBackend):
        raise BuildError(f"nothing makes kernels of the library `{name}`: it is no library")
    return backend


def _compiled(backend: LibraryBackend, function: Any) -> Any:
    symbol = str(function.attrs["global_symbol"])
    if compiled := _compiled_call(function):
        raise BuildError(
            f"`{backend.name}` cannot make kernel `{symbol}`: TVM has compiled `{compiled}` in it "
            "already; a library gets no call_tir, and RunCodegen comes before LegalizeOps"
        )
    try:
        module = tvm.IRModule({"kernel": _of_tensors(function)})
        graph = from_relax(module, "kernel", is_canonical=True)
        said = f"`{backend.name}` cannot make kernel `{symbol}`"
        made = without_faults(
            lambda: backend.codegen(graph, symbol, _options(function)),
            said,
            BuildError,
            passing=(OSError, Unsupported),  # for what this machine lacks, and the operators
        )
    except (Unsupported, UnsupportedRelax) as error:
        raise BuildError(f"`{backend.name}` cannot make kernel `{symbol}`: {error}") from error
    if not isinstance(made, tvm_ffi.Module):
        raise BuildError(f"{said}: `codegen` returned {made!r:.60}, and not a tvm.runtime.Module")
    if not made.implements_function(symbol):
        raise BuildError(f"{said}: `codegen` returned a module that has no function `{symbol}`")
    return made


def _compiled_call(function: Any) -> str:
    """The name of a function that TVM has compiled and that `function` calls; else empty."""
    found: list[str] = []

    def note(call: Any) -> None:
        if call.op == _CALL_TIR:
            found.append(str(call.args[0].name_hint))

    tvm_ffi.structural_walk(function, (tvm.ir.Call, note))
    return found[0] if found else ""


_CALL_TIR = tvm.ir.Op.get("relax.call_tir")


def _of_tensors(function: Any) -> Any:
    """
    `function` without the parameter for dimensions that no tensor defines. A library finds them
    from its operands, or is not asked; `returning` leaves them out of the calls.
    """
    params = [each for each in function.params if not isinstance(each.ty, relax.ShapeType)]
    if len(params) == len(function.params):
        return function
    return with_body(function, function.body, params)


def _options(function: Any) -> dict[str, Any]:
    return {
        str(key).removeprefix(OPTION_PREFIX): plain(value)
        for key, value in function.attrs.items()
        if str(key).startswith(OPTION_PREFIX)
    }
