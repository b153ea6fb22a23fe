"""The type of an array of numpy, whatever its shape and dtype."""

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
