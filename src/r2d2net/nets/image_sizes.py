"""Checks of the arguments that all networks of images have."""

from __future__ import annotations

from r2d2net.errors import require, require_whole


def require_image(channels: int, classes: int, size: int, *, least: int, name: str) -> None:
    """Raise a one-line error unless images of this kind fit the network.

    Args:
        channels: 1 for grey images, 3 for colour.
        classes: Width of the output.
        size: Pixels of a side; images are square.
        least: Smallest side of which the network's strides and pools leave at least one position.
        name: Name of the network, for the message.

    Raises:
        ParameterError: If an argument is not a whole number above 0, or the images are too small.
    """
    require_whole("channels", channels)
    require_whole("classes", classes)
    require_whole("size", size)
    require(size >= least, "size", size, f"{name} needs at least {least} x {least} pixels; resize or pad the images")
