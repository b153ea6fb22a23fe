"""Read a program that PyTorch exported as a graph."""

import warnings
from collections.abc import Mapping
from typing import Any

import tvm

from collage_dsl.frontend.errors import FrontendError, UnsupportedRelax, sentence
from collage_dsl.frontend.from_relax import from_relax
from collage_dsl.graph import Graph


def from_torch(program: Any) -> Graph:
    """
    The graph of a `torch.export.ExportedProgram`, for inference, in the form of `from_onnx`.

        graph = collage.from_torch(torch.export.export(model.eval(), (x,)))

    Relax's own importer reads the program, after PyTorch has decomposed it into core operators.
    Parameters and buffers become constants. A node has the name of the PyTorch node that it
    computes, and an output its name in the program. Raises `FrontendError`.
    """
    _check(program)
    # Warnings about the import give advice on how to export models; the user here cannot use it.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            module, names, outputs = _imported(program)
        except Exception as error:
            # TVM raises errors of many kinds: AssertionError, KeyError, ValueError.
            raise FrontendError(f"cannot import the PyTorch program: {sentence(error)}") from error
    function = module["main"]
    variables = (each.var for block in function.body.blocks for each in block.bindings)
    named = {var: names[str(var.name)] for var in variables if str(var.name) in names}
    returned = getattr(function.ret_ty, "fields", (function.ret_ty,))
    is_named = len(outputs) == len(returned)
    try:
        return from_relax(module, names=named, output_names=outputs if is_named else None)
    except UnsupportedRelax as error:
        raise FrontendError(f"cannot import the PyTorch program: {error}") from error


def is_of_torch(model: object) -> bool:
    """Whether `model` is an object of PyTorch; asking does not import PyTorch."""
    return any(each.__module__.partition(".")[0] == "torch" for each in type(model).__mro__)


def _check(program: Any) -> None:
    """Raise `FrontendError` unless `program` was exported by PyTorch."""
    try:
        import torch
        import torch.export
    except ModuleNotFoundError:
        raise FrontendError(
            "PyTorch programs need torch, which is not installed: pip install torch"
        ) from None
    if isinstance(program, torch.nn.Module):
        raise FrontendError(
            "a PyTorch module has to be exported first: torch.export.export(module.eval(), inputs)"
        )
    if not isinstance(program, torch.export.ExportedProgram):
        kind = type(program).__name__
        raise FrontendError(f"a PyTorch program is what torch.export.export gives, not a {kind}")


def _imported(program: Any) -> tuple[tvm.IRModule, Mapping[str, str], list[str]]:
    """
    The module that TVM makes of `program`, the PyTorch name of its variables, and the names of the
    outputs.
    """
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

    core = program if _has_sparse_tensors(program) else program.run_decompositions()
    importer = ExportedProgramImporter()
    module = importer.from_exported_program(
        core,
        keep_params_as_input=False,
        unwrap_unit_return_tuple=True,
        no_bind_return_tuple=False,
        custom_convert_map=None,
    )
    names: dict[str, str] = {}
    for node, value in importer.env.items():
        if isinstance(value, tvm.ir.Var):
            names.setdefault(str(value.name), node.name)
    return module, names, list(map(str, program.graph_signature.user_outputs))


def _has_sparse_tensors(program: Any) -> bool:
    """Whether PyTorch cannot decompose the operators of `program`, as Relax's importer finds."""
    import torch

    values = [*program.state_dict.values(), *program.constants.values()]
    return any(isinstance(v, torch.Tensor) and v.layout != torch.strided for v in values)
