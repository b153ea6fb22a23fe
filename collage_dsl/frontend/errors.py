"""The errors for models that cannot be imported, and shorter texts for TVM's own errors."""

import re
from traceback import walk_tb


class FrontendError(Exception):
    """A model cannot be imported. Says why, and at which node, in one sentence."""


class UnreadableModelError(FrontendError):
    """The file of a model, or one with its data, is missing or cannot be read."""


class ShapesError(FrontendError):
    """The shapes or sizes that are asked for are not possible for the inputs of a model."""


class CannotConvertError(Exception):
    """A node of an ONNX model has no canonical form. Says why; the caller adds which node."""


class UnknownSizeError(CannotConvertError):
    """A node of an ONNX model has a canonical form only if sizes are known that are not."""


class WrongNodeError(CannotConvertError):
    """A node of an ONNX model is not what its operator allows, so nothing can run it."""


def no_model(model: object, taken: str) -> FrontendError:
    """The error for what is none of the forms of a model that are `taken`."""
    said = f"a model is {taken}, and not a value of type {type(model).__name__}"
    if type(model).__name__ == "IRModule":  # asked by name: without TVM, none is made
        said += (
            "; a Relax module is compiled by "
            'tvm.compile(module, target, relax_pipeline=collage.pipeline(["native"])), '
            "and `collage.from_relax(module)` gives its graph"
        )
    return FrontendError(said)


class DefectError(Exception):
    """A mistake in our own code ended the import of a model. Says which, and at which node."""


class RefusedInputsError(Exception):
    """A model cannot be run on some inputs."""


def is_defect(error: BaseException) -> bool:
    """
    Whether a mistake in our own code raised `error`. TVM's converters raise errors of the same
    types for nodes that they do not support: only where an error was raised tells them apart.
    """
    if not isinstance(error, _MISTAKES):
        return False
    *_, (frame, _) = walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__")).partition(".")[0] == _OURS


_MISTAKES = (AssertionError, AttributeError, KeyError, NameError, TypeError)
"""Errors that no model causes. An IndexError may come from a list in the model that is short."""

_OURS = __name__.partition(".")[0]


def sentence(error: BaseException) -> str:
    """The message of `error`, from TVM or a library, as one sentence without TVM's notation."""
    lines = str(error).strip().splitlines()
    text = lines[-1].strip() if lines else type(error).__name__
    for pattern, plain in _NOTATION:
        text = pattern.sub(plain, text)
    text = re.sub(r"\.\s+([A-Z])", lambda found: f"; {found[1].lower()}", text)
    return text.rstrip(".")


_NOTATION = (
    (re.compile(r"# Metadata omitted\. Use .*? to show it\.\s*"), "it "),
    (re.compile(r"In ir\.Op\(.*?support_level=\d+\), "), ""),
    (re.compile(r"T\.\w+\((-?\d+)\)"), r"\1"),
    (re.compile(r"R\.shape\((\[[^]]*\])\)"), r"\1"),
)
"""Patterns for operators, numbers and shapes in messages of TVM, and our way to write them."""


class UnsupportedRelax(FrontendError):  # noqa: N818, reads as what it says
    """A Relax function contains something that a `Graph` cannot contain."""


class UnsupportedValue(UnsupportedRelax):
    """An attribute, a dimension or a type that a `Graph` cannot contain. It does not say where."""
