"""What the tensors and the header of a saved posterior must be, besides unaltered: looked at before it is used.

    header     the records that `Posterior.stage` writes, by their types
    tensors    finite, as training demands of every state; buffers, such as attention masks, may be infinite but not NaN
    units      centres and scales of one shape, scales above 0
    draws      one vector of all weights and one of all other parameters, in the model's dtype

A digest tells that a file is as it was written; these tell that what was written can be used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from r2d2net.errors import CheckpointError
from r2d2net.inference.base import Draws, DrawSource
from r2d2net.model import Tensors
from r2d2net.network_inputs import Units
from r2d2net.saved_json import Each, Maybe, Whole

FIX = "fit again"
NUMBER = (int, float)
DESCRIBED = {"type": str, "arguments": dict}
SETTINGS = {
    "model": {
        "parameters": Each({"shape": [Whole()], "prior": Maybe(DESCRIBED)}),
        "likelihood": DESCRIBED,
        "frozen?": [str],
    },
    "algorithm": DESCRIBED,
    "epochs": Whole(1),
    "batches": Whole(1),
    "n": Whole(1),
    "seed": int,
    "network": str,
    "flat_target": bool,
}
HEADER = {"settings": SETTINGS, "history": [Each(Maybe(NUMBER))], "candidates": [dict], "health?": Maybe(dict)}
UNITS = (torch.float32, torch.float64)
INFINITE = "buffers"  # part of a name of tensors that may be infinite
UNBOUNDED = "loo"  # of moments of rows left out, which may be where a draw cannot explain a row


def require_values(tensors: Tensors, path: Path) -> None:
    """Refuse tensors that no finished run leaves.

    Args:
        tensors: Tensors by name.
        path: Their file.

    Raises:
        CheckpointError: If a number is not finite.
    """
    for name, tensor in tensors.items():
        if not (tensor.is_floating_point() or tensor.is_complex()):
            continue
        kinds = name.split("/")
        may_be_infinite = INFINITE in kinds or UNBOUNDED in kinds
        wrong = bool(tensor.isnan().any()) if may_be_infinite else not bool(torch.isfinite(tensor).all())
        if wrong:
            raise CheckpointError(f"holds numbers that are not finite, in {name!r:.80}", value=path, fix=FIX)


def require_units(units: Units, path: Path) -> None:
    """Refuse units that standardise nothing.

    Args:
        units: The units.
        path: Their file.

    Raises:
        CheckpointError: If their shapes differ, they are no floating numbers, or a scale is not above 0.
    """
    pairs = {"inputs": (units.x_center, units.x_scale), "targets": (units.y.center, units.y.scale)}
    for what, (center, scale) in pairs.items():
        of_graph = what == "inputs" and center.dim() == 2 and len(center) == 1  # (1, features)
        alike = center.shape == scale.shape and (center.dim() <= 1 or of_graph)
        if not (alike and center.dtype == scale.dtype in UNITS and bool((scale > 0).all())):
            raise CheckpointError(f"holds no units of the {what}", value=path, fix=FIX)
    most = units.y.most
    if most is not None and not (most.is_floating_point() and most.dim() <= 1):
        raise CheckpointError("holds no largest target", value=path, fix=FIX)


def require_levels(levels: Tensor, path: Path) -> None:
    """Refuse a calibration of intervals whose levels are no levels.

    Args:
        levels: Levels of rows and outputs.
        path: Their file.

    Raises:
        CheckpointError: If they are no ascending numbers in [0, 1], (rows, outputs).
    """
    fits = levels.dim() == 2 and levels.dtype == torch.float64 and levels.numel() > 0
    if not (fits and bool((levels >= 0).all() and (levels <= 1).all() and (levels.diff(dim=0) >= 0).all())):
        raise CheckpointError("holds no calibration of intervals", value=path, fix=FIX)


def require_drawable(source: DrawSource[Any], path: Path) -> None:
    """Draw one network, and refuse a source whose draws are not of the model.

    Args:
        source: The distribution of networks.
        path: Its file.

    Raises:
        CheckpointError: If weights, other parameters or buffers are not those of the model.
    """
    model = source.model
    drawn = source.joined(1, torch.Generator(model.device).manual_seed(0))
    fits = (
        isinstance(drawn, Draws)
        and drawn.weights.shape == (1, model.size)
        and drawn.fixed.shape == (1, model.fixed_size)
        and drawn.weights.dtype == drawn.fixed.dtype == model.dtype
        and {k: v.shape[1:] for k, v in drawn.buffers.items()} == {k: v.shape for k, v in model.buffers().items()}
        and all(v.is_floating_point() and len(v) == 1 and bool(torch.isfinite(v).all()) for v in drawn.noise.values())
    )
    if not fits:
        raise CheckpointError("holds draws that are not of this network", value=path, fix="give the one of the fit")
    if any(v.dim() > 2 or v.numel() == 0 for v in drawn.noise.values()):
        raise CheckpointError("holds a noise of another shape than one number for each output", value=path, fix=FIX)
    variance = drawn.noise.get("variance")
    if variance is not None and not bool((variance > 0).all()):
        raise CheckpointError("holds a noise variance that is not above 0", value=path, fix=FIX)
