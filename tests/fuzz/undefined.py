"""
Where the standard does not say what a node gives, or onnxruntime gives something else than it says.

The results of a model are compared only on inputs for which no node meets one of these cases.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper

from tests.fuzz.graphs import all_nodes, nodes_within

Array = np.ndarray[Any, Any]
Rule = Callable[[NodeProto, Sequence[Any]], str]
"""Why the result of a node is not defined for these operands; empty if it is."""

CANCELLING = frozenset({"Celu", "Elu", "Mish", "Selu", "Softplus"})
"""Functions that are computed as `exp(x) - 1` or `log(1 + exp(x))`: see docs/numerics.md."""


def cancels(model: ModelProto) -> bool:
    return any(node.op_type in CANCELLING for node in all_nodes(model))


def undefined(model: ModelProto, values: Mapping[str, Any]) -> str:
    """Why the results of a model with these values are not compared; empty if they are."""
    return _first(RULES, model, values)


def broken(model: ModelProto, values: Mapping[str, Any]) -> str:
    """Which rule of an operator a model breaks; empty if it breaks none."""
    return _first(BREAKS, model, values)


def _first(
    table: Mapping[str, Sequence[Rule]], model: ModelProto, values: Mapping[str, Any]
) -> str:
    for node in nodes_within(model.graph.node):
        if any(name and name not in values for name in node.input):
            continue  # It is in a branch.
        rules = table.get(node.op_type, ())
        operands = [values.get(name) for name in node.input]
        for rule in rules:
            if why := rule(node, operands):
                return f"{node.op_type}: {why}"
    return ""


def _numbers(value: Any) -> Array:
    """The elements of a tensor in float64."""
    if not isinstance(value, np.ndarray) or value.dtype.kind in "OSU":
        return np.zeros(0)
    return value.astype(np.float64).reshape(-1)


def _not_a_number(node: NodeProto, operands: Sequence[Any]) -> str:
    is_finite = all(np.isfinite(_numbers(each)).all() for each in operands)
    return "" if is_finite else "onnxruntime may lose what is no number, as docs/numerics.md says"


def _nowhere(node: NodeProto, operands: Sequence[Any]) -> str:
    is_finite = np.isfinite(_numbers(operands[1])).all()
    return "" if is_finite else "a place that is no number, as docs/numerics.md says"


def _infinite(node: NodeProto, operands: Sequence[Any]) -> str:
    is_finite = all(np.isfinite(_numbers(each)).all() for each in operands)
    return "" if is_finite else "native kernels multiply what is padded, as docs/numerics.md says"


def _out_of_range(node: NodeProto, operands: Sequence[Any]) -> str:
    """A float as an integer that cannot hold it: whatever C++ makes of it."""
    target = next((a.i for a in node.attribute if a.name == "to"), 0)
    if node.op_type == "CastLike" and isinstance(operands[1], np.ndarray):
        target = helper.np_dtype_to_tensor_dtype(operands[1].dtype)
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(target))
    source = operands[0]
    if not isinstance(source, np.ndarray) or source.dtype.kind in "biuOSU":
        return ""
    if dtype.name.startswith(("int", "uint")) and dtype.kind in "iu":
        low, high = float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)
        numbers = np.trunc(_numbers(source))
        fits = np.isfinite(numbers).all() and (numbers >= low).all() and (numbers <= high).all()
        return "" if fits and (numbers < 2.0**63).all() else "a float that is no such integer"
    return ""


def _integer_power(node: NodeProto, operands: Sequence[Any]) -> str:
    base, exponent = operands[:2]
    if not isinstance(base, np.ndarray) or base.dtype.kind not in "iu":
        return ""
    with np.errstate(all="ignore"):
        powers = np.power(base.astype(np.float64), np.asarray(exponent, np.float64))
    fits = np.isfinite(powers).all() and (abs(powers) < float(np.iinfo(base.dtype).max)).all()
    is_whole = (powers == np.round(powers)).all()
    return "" if fits and is_whole else "an integer power that is no such integer"


def _shifted_out(node: NodeProto, operands: Sequence[Any]) -> str:
    bits = 8 * operands[1].dtype.itemsize
    return "a shift by all bits" if (_numbers(operands[1]) >= bits).any() else ""


def _unsorted(node: NodeProto, operands: Sequence[Any]) -> str:
    is_unsorted = any(a.name == "sorted" and not a.i for a in node.attribute)
    return "the order is not defined" if is_unsorted else ""


def _at_a_step(node: NodeProto, operands: Sequence[Any]) -> str:
    """A number that only rounding keeps from being whole, or half of a whole one."""
    source = operands[0]
    if not isinstance(source, np.ndarray) or source.dtype.kind in "biuOSU":
        return ""
    numbers = _numbers(source) * (2 if node.op_type == "Round" else 1)
    numbers = numbers[np.isfinite(numbers)]
    distance = abs(numbers - np.round(numbers))
    is_near = (distance > 0) & (distance < 1e-6 * np.maximum(1, abs(numbers)))
    return "rounding decides" if is_near.any() else ""


def _lost_in_float16(node: NodeProto, operands: Sequence[Any]) -> str:
    """onnxruntime leaves out the rounding to float16 before a conversion."""
    if operands[0].dtype != np.float16:
        return ""
    exact = np.linalg.det(operands[0].astype(np.float64))
    return "rounding decides" if ((exact != 0) & (exact.astype(np.float16) == 0)).any() else ""


def _no_variance(node: NodeProto, operands: Sequence[Any]) -> str:
    """onnxruntime takes the difference of two squares, and its root, or that of two means."""
    axes = next((tuple(a.ints) for a in node.attribute if a.name == "axes"), (0, 2, 3))
    if node.op_type == "InstanceNormalization":
        axes = tuple(range(2, operands[0].ndim))
    array = operands[0].astype(np.float64)
    variance, square = array.var(axis=axes), (array * array).mean(axis=axes)
    is_small = (variance <= 1e-3 * square).any()
    return "a variance of 0, of which rounding makes a negative number" if is_small else ""


def _no_variance_of_sum(node: NodeProto, operands: Sequence[Any]) -> str:
    """onnxruntime takes the difference of two squares here too."""
    total = operands[0].astype(np.float64) + operands[1]
    variance, square = total.var(axis=-1), (total * total).mean(axis=-1)
    return "a variance near 0" if (variance <= 1e-3 * square).any() else ""


def _wide_window(node: NodeProto, operands: Sequence[Any]) -> str:
    """onnxruntime gives sizes of 0, or memory that nothing wrote."""
    lists = {a.name: tuple(a.ints) for a in node.attribute if a.ints}
    sizes = operands[0].shape[2:]
    rank = len(sizes)
    kernel = lists.get("kernel_shape") or operands[1].shape[2:]
    pads = lists.get("pads", (0,) * 2 * rank)
    rows = zip(kernel, lists.get("dilations", (1,) * rank), sizes, pads, pads[rank:], strict=False)
    is_wide = any((k - 1) * d + 1 > size + low + high for k, d, size, low, high in rows)
    is_padded = any(a.name == "auto_pad" and a.s.startswith(b"SAME") for a in node.attribute)
    return "a window larger than the image" if is_wide and not is_padded else ""


def _other_slope(node: NodeProto, operands: Sequence[Any]) -> str:
    x, slope = operands
    shape = np.broadcast_shapes(x.shape, slope.shape)
    return "" if shape == x.shape else "the slope is larger than the tensor"


def _in_place(node: NodeProto, operands: Sequence[Any]) -> str:
    """onnxruntime writes the new mean over the old one, if that is a constant in float32 for it."""
    trains = any(a.name == "training_mode" and a.i for a in node.attribute)
    is_short = any(each.dtype == np.float16 for each in operands[3:])
    return "another result in each run" if trains and is_short else ""


def _other_labels(node: NodeProto, operands: Sequence[Any]) -> str:
    shape = operands[0].shape
    return "" if operands[1].shape == shape[:1] + shape[2:] else "not one label for each element"


def _other_parameters(node: NodeProto, operands: Sequence[Any]) -> str:
    groups = next(a.i for a in node.attribute if a.name == "num_groups")
    sizes = {operands[0].shape[1], groups}
    is_known = all(np.size(each) in sizes for each in operands[1:])
    return "" if is_known else "a scale for each group or channel"


def _other_skip(node: NodeProto, operands: Sequence[Any]) -> str:
    """onnxruntime begins again where the second operand ends."""
    shape, skip = np.shape(operands[0]), np.shape(operands[1])
    is_known = skip in (shape, (1, *shape[1:]), shape[1:])
    return "" if is_known else "a second operand of another shape"


def _no_variance_in_rows(node: NodeProto, operands: Sequence[Any]) -> str:
    """Sums of rows, of which rounding makes most of the variance."""
    tables = [each for each in operands[2:5] if isinstance(each, np.ndarray) and each.ndim == 2]
    rows = np.concatenate([each.astype(np.float64) for each in tables])
    is_small = rows.var(axis=-1).min() <= 1e-5 * (rows * rows).max()
    return "a variance near 0" if is_small else ""


def _no_list(node: NodeProto, operands: Sequence[Any]) -> str:
    return "" if operands[-1].ndim == 1 else "a shape is a list of sizes"


def _no_channels(node: NodeProto, operands: Sequence[Any]) -> str:
    """onnxruntime gives memory that nothing wrote."""
    if node.op_type == "QLinearConv":
        return "a sum over no channels" if 0 in operands[3].shape else ""
    return "a sum over nothing" if operands[0].shape[-1:] == (0,) else ""


def _several_scales(node: NodeProto, operands: Sequence[Any]) -> str:
    """onnxruntime refuses the node if it knows the scale before it runs."""
    places = (1, 2, 3, 4) if len(operands) == 5 else ()
    return "a scale by channel" if any(np.size(operands[i]) != 1 for i in places) else ""


_ORDER = (_not_a_number,)

RULES: Mapping[str, Sequence[Rule]] = {
    "ArgMax": _ORDER,
    "ArgMin": _ORDER,
    "BitShift": (_shifted_out,),
    "Cast": (_out_of_range,),
    "CastLike": (_out_of_range,),
    "Ceil": (_at_a_step,),
    "Clip": _ORDER,
    "ConvTranspose": (_infinite,),
    "Det": (_lost_in_float16,),
    "EmbedLayerNormalization": (_no_variance_in_rows,),
    "Floor": (_at_a_step,),
    "GlobalMaxPool": _ORDER,
    "GridSample": (_nowhere,),
    "Hardmax": _ORDER,
    "InstanceNormalization": (_no_variance,),
    "LRN": _ORDER,
    "MaxPool": _ORDER,
    "MaxRoiPool": _ORDER,
    "MeanVarianceNormalization": (_no_variance,),
    "Pow": (_integer_power,),
    "ReduceMax": _ORDER,
    "ReduceMin": _ORDER,
    "RoiAlign": _ORDER,
    "Round": (_at_a_step,),
    "Sigmoid": _ORDER,
    "Sign": _ORDER,
    "SkipLayerNormalization": (_no_variance_of_sum,),
    "TopK": (*_ORDER, _unsorted),
}

BREAKS: Mapping[str, Sequence[Rule]] = {
    "AveragePool": (_wide_window,),
    "BatchNormalization": (_in_place,),
    "ConstantOfShape": (_no_list,),
    "Conv": (_wide_window,),
    "DynamicQuantizeMatMul": (_no_channels,),
    "Expand": (_no_list,),
    "GroupNormalization": (_other_parameters,),
    "LpPool": (_wide_window,),
    "MaxPool": (_wide_window,),
    "MatMulInteger": (_no_channels,),
    "MatMulIntegerToFloat": (_no_channels,),
    "NegativeLogLikelihoodLoss": (_other_labels,),
    "PRelu": (_other_slope,),
    "QLinearConv": (_no_channels,),
    "QLinearMatMul": (_no_channels,),
    "QLinearSoftmax": (_several_scales,),
    "SkipLayerNormalization": (_other_skip,),
    "SkipSimplifiedLayerNormalization": (_other_skip,),
    "SoftmaxCrossEntropyLoss": (_other_labels,),
}
"""
The rules of operators that onnxruntime does not keep to, or only if it knows a shape or a constant
before the model runs.
"""
