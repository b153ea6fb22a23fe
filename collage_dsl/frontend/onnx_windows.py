"""Convert ONNX operators on images: pooling, padding, resizing."""

from collections.abc import Callable, Mapping, Sequence
from operator import mul
from typing import Any

import numpy as np
import onnx
import tvm_ffi
from tvm import relax

from collage_dsl.frontend.errors import CannotConvertError, UnknownSizeError, WrongNodeError
from collage_dsl.frontend.nearest import KNOWN_COORDINATES, nearest, nearest_by_tvm
from collage_dsl.frontend.onnx_site import Site, Value, known_dims, static_dims
from collage_dsl.frontend.onnx_sizes import as_expr
from collage_dsl.graph.arrays import Array


def per_axis(site: Site, name: str, rank: int) -> Sequence[int]:
    """The numbers of an attribute for each axis of a window, by default 1."""
    return site.attrs.get(name) or (1,) * (rank - 2)


def check_window(site: Site, rank: int, axes: int) -> None:
    """Refuse a window of `axes` axes, or numbers for each of them, that do not fit `rank`."""
    if rank not in (-1, axes + 2):
        raise WrongNodeError(
            f"a window of {axes} axes needs {axes + 2} dimensions, and the input has {rank}"
        )
    for name, count in (("strides", axes), ("dilations", axes), ("pads", 2 * axes)):
        given = len(site.attrs.get(name) or ()) or count
        if given != count:
            raise WrongNodeError(f"`{name}` has the length {given}, and {count} is needed")


def explicit_pads(site: Site, type_: Any, kernel: Sequence[int | None]) -> list[int]:
    """
    The padding before each axis, then after each, with `auto_pad` resolved. Raises
    `CannotConvertError` where a window does not fit into what it slides over.
    """
    pads = _pads(site, type_, kernel)
    dilations = per_axis(site, "dilations", len(kernel) + 2)
    dims, before, after = static_dims(type_)[2:], pads[: len(kernel)], pads[len(kernel) :]
    for each in zip(dims, before, after, kernel, dilations, strict=True):
        size, first, last, window, dilation = each
        if size is None or window is None:
            continue
        padded, covered = size + first + last, (window - 1) * dilation + 1
        if padded < covered:
            raise WrongNodeError(
                f"the window covers {covered} elements of an axis that has {padded} with padding"
            )
    return pads


def _pads(site: Site, type_: Any, kernel: Sequence[int | None]) -> list[int]:
    axes = len(kernel)
    mode = site.attrs.get("auto_pad", b"NOTSET").decode()
    if mode == "NOTSET":
        return list(site.attrs.get("pads") or (0,) * 2 * axes)
    if mode == "VALID":
        return [0] * 2 * axes
    sizes = known_dims(kernel)
    if sizes is None:
        raise UnknownSizeError(f"{mode} padding for a window of unknown size")
    strides = per_axis(site, "strides", axes + 2)
    dilations = per_axis(site, "dilations", axes + 2)
    total = []
    for each in zip(static_dims(type_)[2:], sizes, strides, dilations, strict=True):
        dim, size, stride, dilation = each
        behind = (size - 1) * dilation
        if dim is None and stride > 1 and behind:
            raise UnknownSizeError(f"{mode} padding of an unknown size by strides")
        total.append(behind if dim is None else max(0, behind - (dim - 1) % stride))
    less = [pad // 2 for pad in total]
    more = [pad - half for pad, half in zip(total, less, strict=True)]
    return less + more if mode == "SAME_UPPER" else more + less


def global_average_pool(site: Site) -> Value:
    """
    A mean, not a pooling. Exporters write both; a mean is the form that native kernels fuse with
    the operator before it.
    """
    x = site.expr(0)
    return relax.op.mean(x, axis=list(range(2, x.ty.ndim)), keepdims=True)


def pool(operators: Mapping[int, Any], site: Site) -> Value | None:
    """The pooling of `operators` for the rank; None where TVM's converter is to make it."""
    x, kernel = site.expr(0), site.attrs["kernel_shape"]
    rank = x.ty.ndim
    check_window(site, rank, len(kernel))
    if rank not in operators or len(site.node.output) > 1:
        return None
    if site.attrs.get("ceil_mode"):
        kernel = _cut(kernel, site, x.ty)
    return operators[rank](
        x,
        kernel,
        strides=per_axis(site, "strides", rank),
        padding=explicit_pads(site, x.ty, kernel),
        dilation=per_axis(site, "dilations", rank),
        ceil_mode=bool(site.attrs.get("ceil_mode", 0)),
        count_include_pad=bool(site.attrs.get("count_include_pad", 0)),
    )


def lp_pool(site: Site) -> None:
    """TVM's form, which has operators of Relax for all steps, where the windows fit."""
    type_, kernel = site.expr(0).ty, site.attrs["kernel_shape"]
    check_window(site, type_.ndim, len(kernel))
    explicit_pads(site, type_, kernel)


def transposed_convolution(site: Site) -> None:
    """TVM's form, where the ranks fit."""
    check_window(site, site.expr(0).ty.ndim, site.expr(1).ty.ndim - 2)


def _cut(kernel: Sequence[int], site: Site, type_: Any) -> list[int]:
    """
    `kernel` without the rows that lie behind the padding, where a pooling that rounds its size up
    has only one window along an axis. That pools the same elements, and no more are counted:
    exporters write a window larger than any image in place of a global pooling.
    """
    axes = len(kernel)
    if site.attrs.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        return list(kernel)
    pads, dims = _pads(site, type_, kernel), static_dims(type_)[2:]
    strides, dilations = (per_axis(site, n, axes + 2) for n in ("strides", "dilations"))
    sizes = []
    for axis, (window, size) in enumerate(zip(kernel, dims, strict=True)):
        covered = (window - 1) * dilations[axis] + 1
        padded = covered if size is None else size + pads[axis] + pads[axes + axis]
        is_only = padded < covered < padded + strides[axis]
        sizes.append((padded - 1) // dilations[axis] + 1 if is_only else window)
    return sizes


def local_response_norm(site: Site) -> Value | None:
    """
    `x / (bias + alpha * mean of squares over channels) ** beta`, in six operators.

    The mean is a pooling whose layout names the axes of channels and rows H and W.
    """
    x, emit = site.expr(0), site.scope.emit
    if x.ty.ndim != 4:
        return None
    size = site.attrs["size"]
    behind = size // 2
    mean = relax.op.nn.avg_pool2d(
        emit(relax.op.multiply(x, x)),
        (size, 1),
        padding=((size - 1) // 2, 0, behind, 0),
        layout="NHWC",
        count_include_pad=True,
    )
    dtype = str(x.ty.dtype.dtype)
    alpha, bias, beta = (
        site.scope.literal(np.asarray(site.attrs.get(name, default), dtype))
        for name, default in (("alpha", 1e-4), ("bias", 1.0), ("beta", 0.75))
    )
    scaled = emit(relax.op.multiply(emit(mean), alpha))
    return relax.op.divide(x, emit(relax.op.power(emit(relax.op.add(scaled, bias)), beta)))


def pad(site: Site) -> Value | None:
    """`nn.pad`; what negative padding takes away is cut before. None for other modes."""
    x, rank = site.expr(0), site.expr(0).ty.ndim
    mode = _PADDING.get(site.attrs.get("mode", b"constant"))
    pads: Any = site.attrs.get("pads")
    value, axes = site.attrs.get("value", 0.0), None
    if site.scope.opset >= 11:
        pads, axes = site.constant(1), site.constant(3)
        value = site.scope.number(site.name(2)) if site.has(2) else None
        if pads is None or (site.has(2) and value is None) or (site.has(3) and axes is None):
            raise CannotConvertError("padding that is computed")
    around = [0] * 2 * rank
    chosen = range(rank) if axes is None else axes.ravel().tolist()
    pads = np.ravel(pads)
    if len(pads) != 2 * len(chosen) or not all(-rank <= axis < rank for axis in chosen):
        raise CannotConvertError(f"{len(pads)} numbers pad {len(chosen)} of {rank} axes")
    for place, axis in enumerate(chosen):
        around[2 * axis % (2 * rank)] = int(pads[place])
        around[(2 * axis + 1) % (2 * rank)] = int(pads[place + len(chosen)])
    if mode is None:
        return None
    if min(around) < 0:
        cut = _shortened(site, x, around)
        if cut is None:
            return None
        x, around = cut, [max(each, 0) for each in around]
    if mode == "reflect":
        for size, before, after in zip(static_dims(x.ty), around[::2], around[1::2], strict=True):
            if size is not None and max(before, after) >= size:
                raise WrongNodeError(f"an axis of {size} elements has too few to be reflected")
    fill = 0.0 if value is None else float(np.asarray(value).item())
    return relax.op.nn.pad(x, around, pad_mode=mode, pad_value=fill)


def _shortened(site: Site, x: Any, around: Sequence[int]) -> Any:
    """
    `x` without what negative padding takes away, which comes before the padding; None where its
    size is not known, or nothing would be left.
    """
    axes, begin, end = [], [], []
    for axis, size in enumerate(static_dims(x.ty)):
        before, after = (max(-each, 0) for each in around[2 * axis : 2 * axis + 2])
        if not before and not after:
            continue
        if size is None or before + after >= size:
            return None
        axes.append(axis)
        begin.append(before)
        end.append(size - after)
    return site.scope.emit(relax.op.strided_slice(x, axes, begin, end))


_PADDING = {
    b"constant": "constant",
    b"reflect": "reflect",
    b"edge": "replicate",
    b"wrap": "circular",
}


def upsample(site: Site) -> Value:
    """
    `Upsample` of older operator sets: it scales from the first element on, and the nearest element
    is the one before.
    """
    x, given = site.expr(0), site.attrs.get("scales")
    scales = site.constant(1) if given is None else np.asarray(given, np.float32)
    dims = known_dims(static_dims(x.ty))
    if scales is None or dims is None or len(dims) != 4 or scales[:2].tolist() != [1, 1]:
        raise CannotConvertError("an Upsample but of images by known scales is not supported")
    sizes = np.asarray(dims[2:]) * scales[2:].astype(np.float64)
    if not (sizes == np.round(sizes)).all():
        raise CannotConvertError("Upsample to what is no whole number of elements is not supported")
    mode = site.attrs.get("mode", b"nearest").decode()
    return relax.op.image.resize2d(
        x,
        [int(size) for size in sizes],
        layout="NCHW",
        method={"nearest": "nearest_neighbor"}.get(mode, mode),
        coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    )


def roi_align(site: Site) -> Value | None:
    """
    TVM's operators, which have kernels for images of known sizes only. TVM's converter takes half a
    pixel from the regions before it scales them, so those of another scale are scaled here.
    """
    if known_dims(static_dims(site.expr(0).ty)) is None:
        raise UnknownSizeError("RoiAlign of an image whose sizes have names is not supported")
    if not all(site.attrs.get(name, 1) for name in ("output_height", "output_width")):
        raise CannotConvertError("RoiAlign to no elements is not supported")
    scale = site.attrs.get("spatial_scale", 1.0)
    default = b"half_pixel" if site.scope.opset >= 16 else b"output_half_pixel"
    mode = site.attrs.get("coordinate_transformation_mode", default)
    return None if scale == 1 or mode != b"half_pixel" else _scaled_roi_align(site, scale)


def _scaled_roi_align(site: Site, scale: float) -> Value:
    emit, literal = site.scope.emit, site.scope.literal
    x, regions, images = map(site.expr, range(3))
    dtype = np.dtype(str(regions.ty.dtype.dtype))
    scaled = emit(relax.op.multiply(regions, literal(np.asarray(scale, dtype))))
    shifted = emit(relax.op.subtract(scaled, literal(np.asarray(0.5, dtype))))
    column = emit(relax.op.astype(emit(relax.op.expand_dims(images, 1)), str(dtype)))
    return relax.op.vision.roi_align(
        x,
        emit(relax.op.concat([column, shifted], 1)),
        tuple(site.attrs.get(name, 1) for name in ("output_height", "output_width")),
        spatial_scale=1.0,
        sample_ratio=site.attrs.get("sampling_ratio", 0),
        aligned=True,
        layout="NCHW",
        mode="avg",
    )


def grid_sample(site: Site) -> Value | None:
    """
    TVM's operator, which has kernels for images of known sizes only. Its code for cubes of places
    that are reflected grows so much that it takes minutes to compile.
    """
    is_cubic = site.attrs.get("mode") in (b"cubic", b"bicubic")
    if is_cubic and site.attrs.get("padding_mode") == b"reflection":
        raise CannotConvertError("a cubic GridSample with reflection is not supported")
    if known_dims(static_dims(site.expr(0).ty)[2:]) is None:
        raise UnknownSizeError("GridSample of an image whose sizes have names is not supported")
    if len({str(site.expr(place).ty.dtype.dtype) for place in (0, 1)}) > 1:
        raise CannotConvertError("GridSample at places of another type is not supported")
    return None


def resize(site: Site) -> Value | None:
    """
    TVM's operator, except by scales that give fractional sizes, for it takes the scales of the
    rounded sizes; by scales of sizes with names; and of batches and channels. TVM's converter takes
    numbers for sizes only.
    """
    dims = static_dims(site.expr(0).ty)
    rank = len(dims)
    is_cut = site.attrs.get("coordinate_transformation_mode") == b"tf_crop_and_resize"
    if is_cut and not site.has(1):
        raise CannotConvertError("a Resize of regions that are not given is not supported")
    if site.scope.opset >= 11 and site.constant(3) is None and (wanted := site.sizes(3)):
        return _resized(site, wanted)
    axes = site.attrs.get("axes", range(rank)) if site.scope.opset >= 18 else range(rank)
    place = 1 if site.scope.opset < 11 else 2
    scales = site.constant(place) if site.has(place) else None
    policy = site.attrs.get("keep_aspect_ratio_policy", b"stretch")
    factors: dict[int, float] = {}
    if scales is not None and scales.size:
        factors = dict(zip((axis % rank for axis in axes), scales.tolist(), strict=True))
        if None in dims[2:] and all(factor == int(factor) for factor in factors.values()):
            whole = [int(factors.get(axis, 1)) for axis in range(rank)]
            shape = site.expr(0).ty.shape.values
            is_exact = all(factor & (factor - 1) == 0 for factor in whole)
            return _resized(site, list(map(mul, shape, whole)), is_exact=is_exact)
        results = [_scaled(size, factors.get(axis, 1.0), axis) for axis, size in enumerate(dims)]
    elif (sizes := site.constant(3)) is not None:
        given = dict(zip((axis % rank for axis in axes), sizes.tolist(), strict=True))
        results = [given.get(axis, size) for axis, size in enumerate(dims)]
    else:
        return None
    if results[:2] != dims[:2]:
        raise CannotConvertError("Resize of batches or channels is not supported")
    is_nearest = site.attrs.get("mode", b"nearest") == b"nearest" and site.scope.opset >= 11
    known, made = known_dims(dims), known_dims(results)
    if is_nearest and policy == b"stretch" and known and made:
        return _nearest(site, known, made, factors)
    return None


def _nearest(
    site: Site, dims: Sequence[int], results: Sequence[int], factors: Mapping[int, float]
) -> Value | None:
    """The elements that ONNX takes, by their indices; None if TVM's operator takes them too."""
    coordinates, rounding = (
        site.attrs.get(name, default).decode()
        for name, default in (
            ("coordinate_transformation_mode", b"half_pixel"),
            ("nearest_mode", b"round_prefer_floor"),
        )
    )
    if coordinates not in KNOWN_COORDINATES:
        return None
    taken: dict[int, Array] = {}
    is_same = True
    for axis, (size, made) in enumerate(zip(dims, results, strict=True)):
        if axis < 2 or size < 1 or made < 2:
            continue
        scale = factors.get(axis, made / size)
        found = nearest(size, made, scale, coordinates, rounding)
        if found is None:
            raise CannotConvertError("a Resize to elements in the middle of two is not supported")
        by_tvm = nearest_by_tvm(size, made, coordinates, rounding)
        is_same = is_same and by_tvm is not None and np.array_equal(found, by_tvm)
        taken[axis] = found
    if is_same:
        return None
    value = site.expr(0)
    for axis, indices in taken.items():
        value = site.scope.emit(relax.op.take(value, site.scope.literal(indices), axis))
    return value


OPTIONAL_SCALES = 13
"""The first operator set in which the regions and scales of a `Resize` may be left out."""


def without_empty(node: onnx.NodeProto, constant: Callable[[str], Array | None]) -> onnx.NodeProto:
    """A `Resize` without regions and scales that have no elements, which stand for none."""
    if node.op_type != "Resize":
        return node
    result = onnx.NodeProto()
    result.CopyFrom(node)
    for place, name in enumerate(node.input[1:3], 1):
        array = constant(name) if name else None
        if array is not None and not array.size:
            result.input[place] = ""
    return result


_LIKE_TVM = {"cubic_coeff_a": "cubic_alpha", "exclude_outside": "cubic_exclude"}


def _resized(site: Site, wanted: Sequence[Any], *, is_exact: bool = False) -> Value:
    """
    An image of sizes that follow from dimensions of inputs. For sizes with names, TVM computes
    places by rounded ratios unless `is_exact`. This may turn the nearest element to another
    one, and aligned corners of a size of 1 to NaN.
    """
    x, attrs = site.expr(0), site.attrs
    mode, coordinates, rounding = (
        attrs.get(name, default).decode()
        for name, default in (
            ("mode", b"nearest"),
            ("coordinate_transformation_mode", b"half_pixel"),
            ("nearest_mode", b"round_prefer_floor"),
        )
    )
    policy = attrs.get("keep_aspect_ratio_policy", b"stretch")
    is_usual = policy == b"stretch" and coordinates != "tf_crop_and_resize"
    has_names = None in static_dims(x.ty)[2:] or not all(isinstance(s, int) for s in wanted[2:])
    is_rounded = mode == "nearest" and not is_exact
    if has_names and (is_rounded or coordinates == "align_corners"):
        raise UnknownSizeError("Resize to the nearest or to corners of named sizes is not exact")
    if not is_usual or x.ty.ndim != 4 or len(wanted) != 4:
        raise UnknownSizeError("a Resize but of whole images to sizes with names is not supported")
    sizes = list(map(as_expr, wanted))
    if not all(map(tvm_ffi.structural_equal, sizes[:2], x.ty.shape.values[:2])):
        raise CannotConvertError("Resize of batches or channels is not supported")
    return relax.op.image.resize2d(
        x,
        relax.ShapeExpr(sizes[2:]),
        layout="NCHW",
        method={"nearest": "nearest_neighbor"}.get(mode, mode),
        coordinate_transformation_mode=coordinates,
        rounding_method=rounding,
        **{theirs: attrs[ours] for ours, theirs in _LIKE_TVM.items() if ours in attrs},
    )


def _scaled(size: int | None, scale: float, axis: int) -> int | None:
    if size is None and (axis >= 2 or scale != 1):
        raise UnknownSizeError("Resize by scales of sizes with names is not supported")
    if size is None:
        return None
    if abs(size * scale - round(size * scale)) > 1e-4:
        raise CannotConvertError("Resize to what is no whole number of elements is not supported")
    return round(size * scale)
