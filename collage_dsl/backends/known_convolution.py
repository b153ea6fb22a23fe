"""What the native variants ask of a convolution in a graph, whose attributes are all known."""

from collage_dsl.graph import Node
from collage_dsl.graph.convolutions import Convolution


def known(convolution: Node, weight: Node) -> Convolution:
    """`convolution` with its `weight`, whose shape is static, and whose layout is taken as OIHW."""
    attrs = convolution.attrs
    height, width = weight.tensor.static_shape[2:4]
    return Convolution(
        layouts=(str(attrs["data_layout"]), str(attrs["kernel_layout"]), str(attrs["out_layout"])),
        kernel=(height, width),
        strides=_numbers(attrs["strides"]),
        dilation=_numbers(attrs["dilation"]),
        padding=_numbers(attrs["padding"]),
        groups=int(str(attrs["groups"])),
        channels=weight.tensor.static_shape[1],
    )


def _numbers(value: object) -> tuple[int, ...]:
    assert isinstance(value, tuple)
    return tuple(int(str(number)) for number in value)
