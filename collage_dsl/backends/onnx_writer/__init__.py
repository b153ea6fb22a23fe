"""A graph of Relax operators, written as an ONNX model."""

from collage_dsl.backends.onnx_writer.call import Unsupported
from collage_dsl.backends.onnx_writer.model import OPSET, outline, to_onnx

__all__ = ["OPSET", "Unsupported", "outline", "to_onnx"]
