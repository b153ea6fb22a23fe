"""Read a program that PyTorch exported as a graph."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from collage_dsl.frontend.errors import FrontendError, sentence
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.frontend.torch_operators import decomposed, translations
from collage_dsl.frontend.torch_reference import is_constant
from collage_dsl.graph import Graph


def from_torch(program: Any) -> Graph:
    """
    The graph of a `torch.export.ExportedProgram`, for inference, as `from_onnx` gives it.

        graph = collage.from_torch(torch.export.export(model.eval(), (x,)))

    PyTorch's own exporter writes the program as an ONNX model, in a temporary folder, with its
    parameters and buffers. Inputs and outputs have their names in the program. A node has the name
    of the value that it computes, which is that of a PyTorch node where the exporter has not
    rewritten it. Raises `FrontendError`.
    """
    _check(program)
    with TemporaryDirectory(prefix="collage-") as folder:
        path = Path(folder) / "program.onnx"
        with _quiet():
            _export(program, path)
        try:
            graph = from_onnx(path)
        except FrontendError as error:
            said = str(error).replace(f"{path}: ", "").replace(str(path), "the program")
            raise type(error)(f"cannot import the PyTorch program: {said}") from error
    graph.output_names = tuple(map(str, program.graph_signature.user_outputs))
    return graph


def is_of_torch(model: object) -> bool:
    """Whether `model` is an object of PyTorch; asking does not import PyTorch."""
    return any(each.__module__.partition(".")[0] == "torch" for each in type(model).__mro__)


def _check(program: Any) -> None:
    """Raise `FrontendError` unless `program` was exported by PyTorch and can be written."""
    try:
        import torch
        import torch.export

        import_module("onnxscript")  # the exporter needs it
    except ModuleNotFoundError as error:
        missing = str(error.name or "torch").partition(".")[0]
        raise FrontendError(
            f"PyTorch programs need {missing}, which is not installed: pip install torch onnxscript"
        ) from None
    if isinstance(program, torch.nn.Module):
        raise FrontendError(
            "a PyTorch module has to be exported first: torch.export.export(module.eval(), inputs)"
        )
    if not isinstance(program, torch.export.ExportedProgram):
        raise FrontendError(
            "a PyTorch program is what torch.export.export gives, and not a value of type "
            f"{type(program).__name__}"
        )
    for spec in program.graph_signature.output_specs:
        if is_constant(spec):
            raise FrontendError(
                f"the PyTorch program gives `{spec.arg.value}` beside tensors: return only "
                "tensors, and export it again"
            )
    for name in _complex(program):
        raise FrontendError(
            f"`{name}` of the PyTorch program is a tensor of complex numbers, which ONNX does not "
            "have: take and return torch.view_as_real of such tensors, and export it again"
        )


def _complex(program: Any) -> Iterator[str]:
    """The names of the inputs and outputs that are complex."""
    types = {
        node.name: getattr(node.meta.get("val"), "dtype", None) for node in program.graph.nodes
    }
    signature = program.graph_signature
    for name in (*signature.user_inputs, *signature.user_outputs):
        if (dtype := types.get(name)) is not None and dtype.is_complex:
            yield name


def _export(program: Any, path: Path) -> None:
    """Write `program` as an ONNX model, with its weights beside it."""
    import torch

    try:
        written = torch.onnx.export(
            decomposed(program),
            dynamo=True,
            verbose=False,
            custom_translation_table=translations(),
        )
        _name_inputs(written.model.graph, program.graph_signature)
        written.save(path, external_data=True)
    except Exception as error:  # the exporter raises errors of all kinds
        raise FrontendError(
            f"cannot import the PyTorch program: {sentence(_cause(error))}"
        ) from error


def _name_inputs(graph: Any, signature: Any) -> None:
    """Give the inputs their names; the exporter gives those to outputs that are inputs."""
    user = (spec for spec in signature.input_specs if spec.kind.name == "USER_INPUT")
    names = [str(spec.arg.name) for spec in user if not is_constant(spec)]
    for output in graph.outputs:
        if output.name in names:
            output.name = f"{output.name}.output"
    for given, name in zip(graph.inputs, names, strict=True):
        given.name = name


def _cause(error: BaseException) -> BaseException:
    """The first of the errors that led to `error`: the others say how to debug the exporter."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings of the exporter, which are advice on its own use."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
