"""What a fit says of its start where the user does not name one: in one line, and only of weights that may matter."""

from __future__ import annotations

import warnings
from typing import Any

from torch import Tensor

from r2d2net.errors import FitWarning
from r2d2net.inference import Method
from r2d2net.model import BayesianModel
from r2d2net.network_inputs import Units

FAR = 0.1  # of a centre from 0 in deviations, and of a deviation from 1: other units than those of the network


def warn_of_start(method: Method, model: BayesianModel[Any], units: Units) -> None:
    """Warn if a fit starts from the network's weights, or draws new ones where these may have been trained.

    Args:
        method: The algorithm as the user gave it.
        model: The model.
        units: Units of the data.
    """
    if getattr(method, "start", None) != "auto":
        return
    start, settled, name = model.suited_start(), method.settled(model), type(method).__name__
    if start.why is None:
        return
    if getattr(settled, "start", None) == "net":
        done, fix = "starts from its weights", f"give {name}(start='he') to draw new ones"
        if _are_far(units):
            fix += "; it is given standardised data, so give standardize=False if it was trained without"
    else:
        done = "draws new weights for every run" if method.runs > 1 else "draws new weights"
        fix = f"give {name}(start='net') to start from those of net, or {name}(start='he')"
    warnings.warn(f"{start.why}: {name} {done}; {fix}", FitWarning, stacklevel=3)


def _are_far(units: Units) -> bool:
    """Whether standardised data are other numbers than the user's."""

    def far(center: Tensor, scale: Tensor) -> bool:
        return bool(((center / scale).abs() > FAR).any() or (scale.log().abs() > FAR).any())

    return far(units.y.center, units.y.scale) or far(units.x_center, units.x_scale)
