"""What a model cannot be imported for."""


class FrontendError(Exception):
    """A model cannot be imported. Says why, and at which node, in one sentence."""


class CannotConvertError(Exception):
    """A node of an ONNX model has no canonical form. Says why; who catches it says which node."""


class UnsupportedRelax(FrontendError):  # noqa: N818, reads as what it says
    """A Relax function holds something that a `Graph` cannot."""
