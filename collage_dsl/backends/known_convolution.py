"""What the native variants ask of a convolution in a graph, whose attributes are all known."""

from math import prod

from collage_dsl.graph import Node
from collage_dsl.graph.convolutions import Convolution
from collage_dsl.graph.variants import TRANSPOSED


def known(convolution: Node, weight: Node) -> Convolution:
    """
    `convolution` with its `weight`, whose shape is static, and whose layout is taken as OIHW, or as
    IOHW if it is transposed; of volumes, what is known of rows and columns, in an image with the
    channels of several planes.
    """
    attrs = convolution.attrs
    first, second, *planes, height, width = weight.tensor.static_shape
    channels = first if convolution.op == TRANSPOSED else second
    padding = _numbers(attrs["padding"])
    before, after = padding[: len(padding) // 2], padding[len(padding) // 2 :]
    layouts = (str(attrs[f"{each}_layout"]) for each in ("data", "kernel", "out"))
    data, kernel, result = (_OF_VOLUMES.get(each, each) for each in layouts)
    return Convolution(
        layouts=(data, kernel, result),
        kernel=(height, width),
        strides=_numbers(attrs["strides"])[-2:],
        dilation=_numbers(attrs["dilation"])[-2:],
        padding=(*before[-2:], *after[-2:]),
        groups=int(str(attrs["groups"])),
        channels=channels * prod(planes),
    )


_OF_VOLUMES = {"NCDHW": "NCHW", "OIDHW": "OIHW"}
"""The layouts of images for those of volumes."""


def _numbers(value: object) -> tuple[int, ...]:
    assert isinstance(value, tuple)
    return tuple(int(str(number)) for number in value)
