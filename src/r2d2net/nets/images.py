"""What every network of images asks of its arguments."""

from __future__ import annotations

from r2d2net.errors import require, require_whole


def require_image(channels: int, classes: int, size: int, *, least: int, name: str) -> None:
    """Raise a one-line error unless images of this kind fit the network.

    Args:
        channels: 1 for grey images, 3 for colour.
        classes: Width of the output.
        size: Pixels of a side; images are square.
        least: The smallest side that the network's strides and pools leave anything of.
        name: The network, for the message.
    """
    require_whole("channels", channels)
    require_whole("classes", classes)
    require_whole("size", size)
    require(size >= least, "size", size, f"{name} needs at least {least} x {least} pixels; resize or pad the images")
