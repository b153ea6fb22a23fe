"""What convolutions of ONNX and of onnxruntime take and give, and other operators of images."""

from dataclasses import replace

from collage_dsl.graph import Dim, Type
from collage_dsl.language.inference.shapes import (
    UNKNOWN_DIM,
    Call,
    MismatchError,
    Shape,
    closed,
    differ,
    is_no_multiple,
    product,
    result,
    times,
    unknown,
)


def convolving(call: Call) -> Type:
    return _convolved(call, 0, 1, 2)


def fused_convolving(call: Call) -> Type:
    """The third operand is a bias, or what is added to the result, which is no list."""
    third = call.shape(2)
    is_bias = len(call.types) == 4 or (third is not None and len(third) == 1)
    return _convolved(call, 0, 1, 2 if is_bias else None)


def convolving_last(call: Call) -> Type:
    """The channels come last; those of the weight do so for some tools only."""
    shape, kernel = call.shape(0), call.shape(1)
    if shape is not None and kernel is not None:
        _check_ranks(shape, kernel)
    _check_rank(shape or kernel)
    return unknown(call)


def convolving_integers(call: Call) -> Type:
    """The zero points come after the data and the weight; there is no bias."""
    return _convolved(call, 0, 1, None)


def quantized_convolving(call: Call) -> Type:
    """
    The scales and zero points stand between the data, the weight and the bias. Those of the weight
    are single numbers, or lists with one for each filter.
    """
    found, kernel = _convolved(call, 0, 3, 8), call.shape(3)
    for at, name in ((4, "scales"), (5, "zero points")):
        given = call.shape(at)
        if kernel is not None and given is not None and len(given) == 1 and differ(given[0], 1):
            message = f"{given[0]} {name} do not fit {kernel[0]} filters"
            call.agree(given[0], kernel[0], message)
    return found


def quantized_convolving_images(call: Call) -> Type:
    """The channels of the data come second or last, and those of the weight always second."""
    is_last, data = call.known_whole("channels_last"), call.tensor()
    if is_last is None:
        return unknown(call)
    if not is_last or data is None or data.shape is None:
        return quantized_convolving(call)
    first, *places, last = data.shape if len(data.shape) > 1 else (*data.shape, UNKNOWN_DIM)
    turned = replace(data, shape=(first, last, *places))
    quantized_convolving(replace(call, types=(turned, *call.types[1:])))
    kernel = call.shape(3)
    filters = kernel[0] if kernel else UNKNOWN_DIM
    return result(call, (first, *(UNKNOWN_DIM,) * len(places), filters))


def _convolved(call: Call, data: int, weight: int, bias: int | None) -> Type:
    """`[batch, channels, …]` and a weight `[filters, channels of a group, …]`."""
    shape, kernel = _with_rank_of(call.shape(weight), call.shape(data)), call.shape(weight)
    if shape is None or kernel is None:
        _check_rank(shape)
        return result(call, None if shape is None else _image(shape, UNKNOWN_DIM))
    _check_ranks(shape, kernel)
    channels = shape[1]
    group = call.known_whole("group")
    if group is not None:
        taken = times(kernel[1], group)
        call.agree(channels, taken, f"{channels} channels do not fit a weight for {taken}")
    elif is_no_multiple(channels, kernel[1]):
        message = f"{channels} channels do not make groups of {kernel[1]}"
        raise MismatchError(message)
    if group is not None and is_no_multiple(kernel[0], group):
        raise MismatchError(f"{kernel[0]} filters do not make {group} groups")
    _check_kernel(call, kernel)
    if bias is not None:
        _check_bias(call, bias, kernel[0])
    return result(call, _image(shape, kernel[0]))


def _with_rank_of(kernel: Shape | None, shape: Shape | None) -> Shape | None:
    """The shape of the data, of which at least the rank is known if that of the weight is."""
    return (UNKNOWN_DIM,) * len(kernel) if shape is None and kernel is not None else shape


def _image(shape: Shape, channels: Dim) -> Shape:
    return (shape[0], channels, *(UNKNOWN_DIM,) * (len(shape) - 2))


def transposed(call: Call) -> Type:
    return _transposed(call, 2)


def transposed_with_pads(call: Call) -> Type:
    """The third operand is the padding, and the fourth the bias."""
    return _transposed(call, 3)


def _transposed(call: Call, bias: int) -> Type:
    """The weight is `[channels, filters of a group, …]`."""
    shape, kernel = _with_rank_of(call.shape(1), call.shape(0)), call.shape(1)
    if shape is None or kernel is None:
        _check_rank(shape)
        return unknown(call)
    _check_ranks(shape, kernel)
    message = f"{shape[1]} channels do not fit a weight for {kernel[0]}"
    call.agree(shape[1], kernel[0], message)
    group = call.known_whole("group")
    if group is not None and is_no_multiple(kernel[0], group):
        raise MismatchError(f"{kernel[0]} channels do not make {group} groups")
    filters = UNKNOWN_DIM if group is None else times(kernel[1], group)
    _check_kernel(call, kernel)
    _check_bias(call, bias, filters)
    return result(call, _image(shape, filters))


def deformed(call: Call) -> Type:
    """The offsets have two numbers for each place of the kernel, and the mask has one."""
    _convolved(call, 0, 1, None)
    kernel, offsets = _kernel(call), call.shape(2)
    mask = next((shape for shape in map(call.shape, (3, 4)) if shape and len(shape) > 1), None)
    if kernel is not None and offsets is not None:
        _check_places(call, kernel, offsets, len(kernel) - 2, "offsets")
    if kernel is not None and mask is not None:
        _check_places(call, kernel, mask, 1, "a mask")
    return unknown(call)


def _kernel(call: Call) -> Shape | None:
    """The shape of the weight, of which an attribute may say the window."""
    said = call.known("kernel_shape") if call.shape(1) is None else None
    if not isinstance(said, tuple):
        return call.shape(1)
    return (UNKNOWN_DIM, UNKNOWN_DIM, *(size for size in said if isinstance(size, int)))


def _check_places(call: Call, kernel: Shape, given: Shape, count: int, what: str) -> None:
    """There are `count` numbers for each place of the kernel, in each of the offset groups."""
    if len(given) != len(kernel):
        raise MismatchError(f"{what} of {len(given)} dimensions, not {len(kernel)}")
    groups, each = call.known_whole("offset_group"), product((count, *kernel[2:]))
    if groups is not None:
        needed = product((groups, each))
        message = f"{given[1]} channels of {what}, not {needed} as the kernel needs"
        call.agree(given[1], needed, message)
    elif isinstance(given[1], int) and isinstance(each, int) and each and given[1] % each:
        message = f"{given[1]} channels of {what} are no multiple of the {each} of the kernel"
        raise MismatchError(message)


def _check_rank(shape: Shape | None) -> None:
    if shape is not None and len(shape) < 3:
        raise MismatchError(f"an image has 3 dimensions or more, not {len(shape)}")


def _check_ranks(shape: Shape, kernel: Shape) -> None:
    _check_rank(shape)
    if len(shape) != len(kernel):
        message = f"data of {len(shape)} dimensions do not fit a weight of {len(kernel)}"
        raise MismatchError(message)


def _check_kernel(call: Call, kernel: Shape) -> None:
    said = call.known("kernel_shape")
    if not isinstance(said, tuple):
        return
    sizes = tuple(size for size in said if isinstance(size, int))
    message = f"`kernel_shape` {list(sizes)} does not fit a weight with {list(kernel[2:])}"
    call.agree_all(sizes, kernel[2:], message)


def _check_bias(call: Call, at: int, filters: Dim) -> None:
    shape = call.shape(at)
    if shape is None:
        return
    if len(shape) != 1:
        raise MismatchError(f"a bias has 1 dimension, not {len(shape)}")
    call.agree(shape[0], filters, f"a bias of {shape[0]} does not fit {filters} filters")


def depth_to_space(call: Call) -> Type:
    """Channels become blocks of the image."""
    shape, size = call.shape(), call.known_whole("blocksize")
    if shape is None or len(shape) != 4 or not size:
        return _same_batch(call, shape)
    channels = _divide(call, shape[1], size * size, "channels")
    return result(call, (shape[0], channels, *(times(dim, size) for dim in shape[2:])))


def _same_batch(call: Call, shape: Shape | None) -> Type:
    return result(call, shape and _image(shape, UNKNOWN_DIM))


def space_to_depth(call: Call) -> Type:
    shape, size = call.shape(), call.known_whole("blocksize")
    if shape is None or len(shape) != 4 or not size:
        return _same_batch(call, shape)
    named = zip(shape[2:], ("rows", "columns"), strict=True)
    left = (_divide(call, dim, size, name) for dim, name in named)
    return result(call, (shape[0], times(shape[1], size * size), *left))


def _divide(call: Call, dim: Dim, number: int, name: str) -> Dim:
    """One of `number` equal parts of a dimension."""
    if is_no_multiple(dim, number):
        raise MismatchError(f"{dim} {name} are no multiple of {number}")
    if isinstance(dim, str) and dim != UNKNOWN_DIM:
        call.agree(dim, f"{dim} // {number} * {number}", "")
        return f"{closed(dim)} // {number}"
    return dim // number if isinstance(dim, int) else UNKNOWN_DIM


def sampled(call: Call) -> Type:
    """The images of a batch at the places that a grid says, with the same channels."""
    shape, grid = call.shape(0), call.shape(1)
    if shape is None:
        return unknown(call)
    places: Shape = (UNKNOWN_DIM,) * (len(shape) - 2)
    if grid is not None:
        if len(grid) != len(shape):
            message = f"a grid of {len(grid)} dimensions does not fit data of {len(shape)}"
            raise MismatchError(message)
        call.agree(shape[0], grid[0], f"{shape[0]} images, and grids for {grid[0]}")
        numbers = len(shape) - 2
        if differ(grid[-1], numbers):
            message = f"the grid has {grid[-1]} numbers for each place, not {numbers}"
            raise MismatchError(message)
        places = grid[1:-1]
    return result(call, (*shape[:2], *places))
