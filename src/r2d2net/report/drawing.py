"""Colours that colour-blind readers can tell apart, and axes without a frame.

The palette is that of Okabe and Ito without its yellow, which is too light for lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
SKY, RED, BLACK, GREY = "#56B4E9", "#D55E00", "#000000", "0.6"
PALETTE = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK)


def hide_frame(*axes: Axes) -> None:
    """Hide the upper and right spines of axes, which carry no scale."""
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
