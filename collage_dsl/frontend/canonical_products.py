"""The canonical form of convolutions and products, and of arithmetic with constants."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import tvm
from tvm import relax

from collage_dsl.frontend import onnx_products
from collage_dsl.frontend.attributes import attributes_of
from collage_dsl.frontend.canonical_call import OldCall, dims_of, keeps_dtype
from collage_dsl.frontend.onnx_affine import Factor, Layout, Linear
from collage_dsl.frontend.onnx_site import Converter, Value, layout_of


def binary(converter: Converter, op: str, call: OldCall) -> Value | None:
    """
    Arithmetic with a constant, folded. Not in a function that rounds to integers: where a number is
    rounded to another one, a difference in its last digit is no small one.
    """
    if call.writer.old.rounds or not call.has_leaves(0, 1):
        return None
    return converter(call.as_onnx(op, [call.key(0), call.key(1)]))


def batch_norm(call: OldCall) -> Value:
    """A batch norm with constant parameters, of which only the first result is used."""
    arrays = [call.constant(place) for place in (1, 2, 3, 4)]
    gamma, beta, mean, variance = (np.asarray(array, np.float64) for array in arrays)
    scale = 1 / np.sqrt(variance + float(call.attrs.epsilon))
    scale = scale * gamma if call.attrs.scale else scale
    shift = beta if call.attrs.center else np.zeros_like(mean)
    site = call.as_onnx("BatchNormalization", [call.key(0)])
    return onnx_products.normalized(site, mean, scale, shift)


def convolution(call: OldCall) -> Value | None:
    """A convolution with a constant weight, so that what follows can be folded into it."""
    attrs, x = call.attrs, call.type_of(0)
    layouts = str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout)
    if layouts not in _LAYOUTS or not (call.has_leaves(0, 1) and keeps_dtype(call)):
        return None
    made = partial(_called, call.call.op, _without_dtype(attrs), call.expr(0))
    weight = call.constant(1)
    if weight is None or layout_of(x) is None:
        return made(call.expr(1))
    layout = Layout(str(x.dtype.dtype), x.ndim, 1, weight.shape[0])
    return Linear(made, layout, Factor(weight, call.key(1)), 0)


_LAYOUTS = (("NCW", "OIW", "NCW"), ("NCHW", "OIHW", "NCHW"), ("NCDHW", "OIDHW", "NCDHW"))


def _called(op: Any, attrs: Any, x: Any, weight: Any) -> Any:
    return relax.Call(op, [x, weight], attrs)


def _without_dtype(attrs: Any) -> Any:
    fields = {**attributes_of(attrs), "out_dtype": None}
    return tvm.ir.make_node(attrs.__class__.__tvm_ffi_type_info__.type_key, **fields)


def matmul(call: OldCall) -> Value | None:
    """Without the broadcasts that a product does by itself."""
    if not (call.has_leaves(0, 1) and keeps_dtype(call)):
        return None
    keys = [call.key(0), call.key(1)]
    dims = [dims_of(call.type_of(0)), dims_of(call.type_of(1))]
    for place in (0, 1):
        made = call.made_by(place, "broadcast_to")
        source = made and made.has_leaves(0) and dims_of(made.type_of(0))
        if made and source and _is_product(source, dims, place, dims_of(call.type)):
            keys[place], dims[place] = made.key(0), source
    linear = onnx_products.matmul(call.as_onnx("MatMul", keys))
    return linear or relax.op.matmul(*map(call.writer.expr, keys))


def _is_product(
    source: list[int], dims: list[list[int] | None], place: int, result: list[int] | None
) -> bool:
    """Whether a product has the shape `result` with an operand of the shape `source` at `place`."""
    old, other = dims[place], dims[1 - place]
    if old is None or other is None or result is None or min(len(source), len(other)) < 2:
        return False
    batch = np.broadcast_shapes(tuple(source[:-2]), tuple(other[:-2]))
    return source[-2:] == old[-2:] and list(batch) == result[:-2]


def product_of_rows(call: OldCall) -> Value | None:
    """A product with a constant matrix, and perhaps a bias, of rows in several dimensions."""
    linear = call.writer.pending(call.key(0)) if call.has_leaves(0) else None
    product = _product_before(call) if isinstance(linear, Linear) and linear.rows == 1 else None
    flat = product.made_by(0, "reshape") if product and product.has_leaves(0) else None
    if not isinstance(linear, Linear) or flat is None or not flat.has_leaves(0):
        return None
    dims, rows, result = (dims_of(each) for each in (flat.type_of(0), flat.type, call.type))
    if dims is None or rows is None or result is None or len(rows) != 2:
        return None
    channels = linear.layout.channels
    if dims[-1] != rows[-1] or result != [*dims[:-1], channels]:
        return None
    layout = Layout(linear.layout.dtype, len(dims), len(dims) - 1, channels)
    return replace(linear, call=partial(relax.op.matmul, flat.expr(0)), layout=layout)


def _product_before(call: OldCall) -> OldCall | None:
    """The product that gives the operand of `call`, before a constant is added."""
    if (product := call.made_by(0, "matmul")) is not None:
        return product
    total = call.made_by(0, "add")
    products = (total and total.has_leaves(i) and total.made_by(i, "matmul") for i in (0, 1))
    return next((each for each in products if each), None)


def product_of_batches(call: OldCall) -> Value | None:
    """A product of matrices that are in several dimensions, which is written for one dimension."""
    product = call.made_by(0, "matmul") if call.has_leaves(0) else None
    if product is None or not product.has_leaves(0, 1) or not keeps_dtype(product):
        return None
    flat = [product.made_by(place, "reshape") for place in (0, 1)]
    sources = [each for each in flat if each is not None and each.has_leaves(0)]
    types = [each.type_of(0) for each in sources]
    dims, result = [dims_of(each) for each in types], dims_of(call.type)
    if len(sources) < 2 or result is None or dims[0] is None or dims[1] is None:
        return None
    flats = [dims_of(each.type) for each in sources]
    if len(dims[0]) < 2 or len(dims[1]) < 2:
        return None
    is_flat = all(
        flat is not None and given is not None and len(flat) == 3 and flat[1:] == given[-2:]
        for flat, given in zip(flats, dims, strict=True)
    )
    batch, rows, columns = dims[0][:-2], dims[0][-2], dims[1][-1]
    if not is_flat or batch != dims[1][:-2] or result != [*batch, rows, columns]:
        return None
    return relax.op.matmul(*(each.expr(0) for each in sources))
