"""Which convolutions the native variants can compute, as far as something is known of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

LEAST_CHANNELS = 8
"""Of a group. The transforms work on vectors of channels, and the sums have to pay for them."""

FOLDED_SIDES = (3, 4, 5)
"""Those of a kernel, divided by its stride. With two taps, transforms cost what they save."""

DEPTHWISE_STRIDES = ((1, 1), (2, 2))


@dataclass(frozen=True, slots=True)
class Convolution:
    """
    What is known of a convolution of images: None, or no number, for what is not known. `layouts`
    are those of the data, the kernel and the result, `kernel` its sides, `channels` those of a
    group.
    """

    layouts: tuple[str | None, str | None, str | None]
    kernel: tuple[int | None, int | None]
    strides: tuple[int, ...] | None
    dilation: tuple[int, ...] | None
    padding: tuple[int, ...] | None
    groups: int | None
    channels: int | None


def refused_by_winograd(convolution: Convolution, sides: tuple[int, ...]) -> str | None:
    """Why Winograd's algorithm for kernels of these `sides` never computes it; else None."""
    return (
        refused_layouts(convolution)
        or _kernel_or_strides(convolution, sides)
        or _dilation(convolution)
        or _groups(convolution)
    )


def refused_transposed(convolution: Convolution) -> str | None:
    """
    Why no variant but `direct` computes a transposed convolution, of which all is known; else None.
    """
    if reason := refused_layouts(convolution, kernel="IOHW"):
        return reason
    if convolution.groups != 1 or convolution.dilation != (1, 1):
        return "computes transposed convolutions in one group and without dilation"
    if any(rest for _, rest in _of_strides(convolution)):
        (height, width), strides = convolution.kernel, convolution.strides
        return (
            "computes transposed convolutions whose kernel is some strides long, here it is "
            f"{height}x{width} with strides of {strides}"
        )
    return None


def transposed_refused_by_winograd(convolution: Convolution, sides: tuple[int, ...]) -> str | None:
    """Why Winograd's algorithm for kernels of these `sides` does not compute it; else None."""
    if reason := refused_transposed(convolution):
        return reason
    taps = tuple(taps for taps, _ in _of_strides(convolution))
    if taps == (1, 1) or not {*taps} <= {2, *sides}:
        known = ", ".join(map(str, sorted({2, *sides} - {1})))
        height, width = taps
        return f"computes phases of {known} taps, or 1 and one of these; here are {height}x{width}"
    if (channels := convolution.channels or 0) < LEAST_CHANNELS:
        return f"needs {LEAST_CHANNELS} channels or more, here are {channels}"
    return None


def _of_strides(convolution: Convolution) -> list[tuple[int, int]]:
    """How often the strides go into the sides of the kernel, and what is left."""
    pairs = zip(convolution.kernel, convolution.strides or (), strict=True)
    return [divmod(side or 0, stride) for side, stride in pairs]


def refused_by_depthwise(convolution: Convolution) -> str | None:
    """Why it is in no kernel of the variant `depthwise`; else None."""
    if reason := refused_layouts(convolution):
        return reason
    plain, windows = _pointwise(convolution), _window(convolution)
    match convolution.groups:
        case None:
            return plain and windows
        case 1:
            return plain
        case _:
            return windows


def refused_layouts(convolution: Convolution, kernel: str = "OIHW") -> str | None:
    known = zip(convolution.layouts, ("NCHW", kernel, "NCHW"), strict=True)
    if all(layout in (None, wanted) for layout, wanted in known):
        return None
    data, found, result = (layout or "any" for layout in convolution.layouts)
    said = f"computes the layouts NCHW and {kernel}, here are {data} and {found}"
    return said if result in ("any", data) else f"{said}, and {result} of the result"


def _kernel_or_strides(convolution: Convolution, sides: tuple[int, ...]) -> str | None:
    if convolution.strides is not None:
        return _kernel(convolution, sides) or _strides(convolution)
    known = [side for side in convolution.kernel if side is not None]
    tried = (replace(convolution, strides=(n, n)) for n in range(1, max(known, default=0) + 1))
    reasons = [_kernel_or_strides(each, sides) for each in tried]
    return None if None in reasons or not reasons else reasons[0]


def _kernel(convolution: Convolution, sides: tuple[int, ...]) -> str | None:
    height, width = convolution.kernel
    if convolution.strides != (1, 1):
        return None
    if (height, width) == (1, 1) or any(s not in (None, *sides) for s in (height, width)):
        known = ", ".join(map(str, sides[1:]))
        this = "x".join("any" if side is None else str(side) for side in (height, width))
        return (
            f"computes convolutions with a kernel of sides {known}, or 1 and one of these; "
            f"this one is {this}"
        )
    return None


def _strides(convolution: Convolution) -> str | None:
    """Why a convolution with strides cannot be folded, or would gain nothing by it."""
    strides = convolution.strides
    if strides is None or strides == (1, 1):
        return None
    down, across = strides
    sides = (None if side is None else -(-side // down) for side in convolution.kernel)
    suits = down == across and convolution.groups in (None, 1)
    if not suits or any(side not in (None, *FOLDED_SIDES) for side in sides):
        return f"computes convolutions with strides of 1, here they are {strides}"
    return None


def _dilation(convolution: Convolution) -> str | None:
    """Why a dilated convolution is none over the phases of an image."""
    strides, dilation = convolution.strides, convolution.dilation
    if dilation not in (None, (1, 1)) and strides not in (None, (1, 1)):
        return f"computes dilated convolutions with strides of 1, here they are {strides}"
    return None


def _groups(convolution: Convolution) -> str | None:
    channels = convolution.channels
    if convolution.groups in (None, 1) or channels is None or channels >= LEAST_CHANNELS:
        return None
    return f"needs groups of {LEAST_CHANNELS} channels or more, here they have {channels}"


def _pointwise(convolution: Convolution) -> str | None:
    is_plain = (
        all(side in (None, 1) for side in convolution.kernel)
        and convolution.strides in (None, (1, 1))
        and not any(convolution.padding or ())
    )
    return None if is_plain else "computes convolutions of one tap beside the depthwise one"


def _window(convolution: Convolution) -> str | None:
    is_dilated = convolution.dilation not in (None, (1, 1))
    if is_dilated or convolution.strides not in (None, *DEPTHWISE_STRIDES):
        return "computes windows with a stride of 1 or 2 both ways, and without dilation"
    return None
