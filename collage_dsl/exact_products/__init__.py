"""Models whose products onnxruntime computes exactly, on every processor."""

import onnx

from collage_dsl.exact_products.rounding import without_rounding
from collage_dsl.exact_products.saturation import without_saturation


def exact(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` for onnxruntime here, without saturation, and without factors rounded to bytes."""
    return without_rounding(without_saturation(model))


def exact_in(text: bytes) -> bytes:
    """`exact` for a model as it is saved."""
    model = onnx.load_from_string(text)
    found = exact(model)
    return text if found is model else found.SerializeToString()
