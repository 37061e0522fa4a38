"""Several processes that work on one fit: who they are, what they tell each other, and how they notice a loss."""

from r2d2net.ranks.group import ALONE, Ranks
from r2d2net.ranks.opening import is_world, ranks_of_world
from r2d2net.ranks.row_split import RowSplit
from r2d2net.ranks.slices import Slices, Span, bounds_of

__all__ = ["ALONE", "Ranks", "RowSplit", "Slices", "Span", "bounds_of", "is_world", "ranks_of_world"]
