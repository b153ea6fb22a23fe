"""Write a graph of Relax operators as an ONNX model, for libraries that take one."""

from collage_dsl.backends.onnx_writer.call import Unsupported
from collage_dsl.backends.onnx_writer.kept import OPSET
from collage_dsl.backends.onnx_writer.model import outline, to_onnx

__all__ = ["OPSET", "Unsupported", "outline", "to_onnx"]
