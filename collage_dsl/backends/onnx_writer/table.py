"""The function that writes each operator. An operator that is not here cannot be written."""

from collections.abc import Mapping

from collage_dsl.backends.onnx_writer import arranging, elementwise, neural, reducing
from collage_dsl.backends.onnx_writer.call import Write

OPERATORS: Mapping[str, Write] = {
    **elementwise.OPERATORS,
    **neural.OPERATORS,
    **arranging.OPERATORS,
    **reducing.OPERATORS,
}
