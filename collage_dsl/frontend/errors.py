"""What a model cannot be imported for."""

import re


class FrontendError(Exception):
    """A model cannot be imported. Says why, and at which node, in one sentence."""


class CannotConvertError(Exception):
    """A node of an ONNX model has no canonical form. Says why; who catches it says which node."""


def sentence(error: BaseException) -> str:
    """What TVM or a library says in `error`, as one sentence without TVM's own notation."""
    lines = str(error).strip().splitlines()
    text = lines[-1].strip() if lines else type(error).__name__
    for pattern, plain in _NOTATION:
        text = pattern.sub(plain, text)
    text = re.sub(r"\.\s+([A-Z])", lambda found: f"; {found[1].lower()}", text)
    return text.rstrip(".")


_NOTATION = (
    (re.compile(r"In ir\.Op\(.*?support_level=\d+\), "), ""),
    (re.compile(r"T\.\w+\((-?\d+)\)"), r"\1"),
    (re.compile(r"R\.shape\((\[[^]]*\])\)"), r"\1"),
)
"""How TVM writes operators, numbers and shapes in its messages, and how we do."""


class UnsupportedRelax(FrontendError):  # noqa: N818, reads as what it says
    """A Relax function holds something that a `Graph` cannot."""
