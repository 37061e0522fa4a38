"""The rows of the paper's tables as drawings and texts show them: a display name, a colour and a line style each."""

from __future__ import annotations

from r2d2net.report.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY

STYLES = {
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


def display_name(row: str) -> str:
    """Return the name of a row in drawings and texts; a row without one keeps its own.

    >>> display_name("r2d2-svgi"), display_name("sas-sgld")
    ('R2D2-Net', 'sas-sgld')
    """
    return STYLES[row][0] if row in STYLES else row


def line_style(row: str) -> dict[str, object]:
    """Return the arguments of matplotlib that draw the line of a row: its label, colour and line style."""
    name, color, style = STYLES.get(row, (row, GREY, "-"))
    return {"label": name, "color": color, "linestyle": style}
