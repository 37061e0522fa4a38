"""What drawings have in common: colours that colour-blind readers tell apart, names of rows, plain axes.

The palette is that of Okabe and Ito, its yellow left out, which is too light for lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
SKY, RED, BLACK, GREY = "#56B4E9", "#D55E00", "#000000", "0.6"
PALETTE = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK)

ROWS = {
    "r2d2-svgi": ("R2D2-Net", BLUE, "-"),
    "hs-svi": ("Horseshoe BNN", RED, "--"),
    "hs-svgi": ("Horseshoe by SVGI", ORANGE, (0, (6, 1, 1, 1))),
    "gauss-svgi": ("Gaussian by SVGI", SKY, (0, (3, 2))),
    "gauss-svi": ("Gaussian BNN", GREEN, "-."),
    "mcd": ("MC dropout", PURPLE, ":"),
    "sas-svi": ("spike-and-slab BNN", ORANGE, (0, (3, 1, 1, 1, 1, 1))),
    "sas-svgi": ("spike-and-slab by SVGI", PURPLE, (0, (6, 1, 1, 1, 1, 1))),
    "gauss-mfvi": ("Gaussian BNN, MFVI", SKY, (0, (5, 1))),
    "gauss-radial": ("radial BNN", BLACK, (0, (1, 1))),
    "freq": ("plain network", GREY, "-"),
    "de": ("deep ensemble", BLACK, (0, (4, 2, 1, 2))),
    "edl": ("EDL", PURPLE, "-."),
    "dpn": ("DPN", RED, ":"),
}


def name_of(row: str) -> str:
    """A row's name in drawings and texts.

    >>> name_of("r2d2-svgi"), name_of("sas-sgld")
    ('R2D2-Net', 'sas-sgld')
    """
    return ROWS[row][0] if row in ROWS else row


def line_of(row: str) -> dict[str, object]:
    """How a row's line is drawn."""
    name, color, style = ROWS.get(row, (row, GREY, "-"))
    return {"label": name, "color": color, "linestyle": style}


def plain(*axes: Axes) -> None:
    """Take off what frames the axes without saying anything."""
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
