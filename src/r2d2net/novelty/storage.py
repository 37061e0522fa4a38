"""A detector on disk: detector.safetensors with densities and held-back scores, settings as JSON in its header.

    {"layers": ["features.0", ...], "depths": ["input", "features.0", ...], "scores": ["input", ..., "entropy"],
     "alpha": 0.01, "draws": 50, "seed": 0, "rows": 1000, "posterior": digest of the posterior's tensors}

It does not hold the posterior, which is saved by itself; it is read only beside the posterior it was fitted for, since
those of another posterior would be other scores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import CheckpointError
from r2d2net.inference.base import flatten, part
from r2d2net.manifest import FILE as MANIFEST
from r2d2net.manifest import opened, replacing
from r2d2net.novelty.density import Density
from r2d2net.novelty.row_scores import Reading
from r2d2net.posterior import Posterior
from r2d2net.saved_json import Finite, Whole, require_conforming
from r2d2net.saved_values import require_values

FILE = "detector.safetensors"
HEADER = {
    "layers": [str],
    "depths": [str],
    "scores": [str],
    "alpha": Finite(),
    "draws": Whole(1),
    "seed": int,
    "rows": Whole(1),
    "posterior": str,
}
FIX = "fit the detector again"


class Saved(NamedTuple):
    """What a detector is, without the posterior.

    Attributes:
        held: Scores of the held-back rows, (rows, scores).
        names: Names of the scores.
        layers: Names of the layers that are read.
        densities: A density for each depth.
        reading: How rows are read.
        alpha: Rate of false alarms.
    """

    held: Tensor
    names: Sequence[str]
    layers: Sequence[str]
    densities: dict[str, Density]
    reading: Reading
    alpha: float


def write(folder: Path, posterior: Posterior[Any], saved: Saved) -> Path:
    """Write a detector into a folder of its own.

    Args:
        folder: The folder, made where it is missing.
        posterior: The posterior it was fitted for.
        saved: The detector.

    Returns:
        Path of the file.

    Raises:
        CheckpointError: If the folder holds something else, or cannot be written.
    """
    if (folder / MANIFEST).exists():
        with opened(folder) as parts:
            if not parts.has(FILE):
                raise CheckpointError("holds another run", value=folder, fix="give the detector a folder of its own")
    tensors = {"held": saved.held}
    for place, density in enumerate(saved.densities.values()):
        tensors |= {f"density {place}/{name}": tensor.contiguous() for name, tensor in density._asdict().items()}
    header = {
        "layers": list(saved.layers),
        "depths": list(saved.densities),
        "scores": list(saved.names),
        "alpha": saved.alpha,
        **saved.reading._asdict(),
        "posterior": digest_of(posterior),
    }
    with replacing(folder) as staging:
        staging.tensors(FILE, tensors, header)
    return folder / FILE


def read(folder: Path, posterior: Posterior[Any]) -> Saved:
    """Read a detector and check that it can be used.

    Args:
        folder: Its folder.
        posterior: The posterior it was fitted for.

    Returns:
        The detector.

    Raises:
        CheckpointError: If the file is missing, altered or of another posterior.
    """
    path = folder / FILE
    with opened(folder) as parts:
        tensors, header = parts.tensors(FILE)
    require_conforming(header, HEADER, path)
    require_values({name: tensor for name, tensor in tensors.items() if name != "held"}, path)
    if header["posterior"] != digest_of(posterior):
        raise CheckpointError("is of another posterior", value=path, fix="give the one it was fitted for")
    held, names, layers = tensors.get("held"), header["scores"], header["layers"]
    fits = held is not None and held.dtype == torch.float64 and held.dim() == 2 and len(held) > 0
    if held is None or not fits or held.shape[1] != len(names) or bool(held.isnan().any()):
        raise CheckpointError("holds no scores of held-back rows", value=path, fix=FIX)
    if not 1 / (len(held) + 1) <= header["alpha"] * (1 + 1e-9) < 1:
        raise CheckpointError("holds a rate of false alarms that its rows cannot show", value=path, fix=FIX)
    unknown = set(layers) - {name for name, _ in posterior.model.net.named_modules()}
    if unknown:
        raise CheckpointError(f"names layers that the network lacks, {sorted(unknown)[0]!r:.60}", value=path, fix=FIX)
    densities = {depth: _density(tensors, place, path) for place, depth in enumerate(header["depths"])}
    reading = Reading(header["draws"], header["seed"], header["rows"])
    return Saved(held, names, layers, densities, reading, header["alpha"])


def digest_of(posterior: Posterior[Any]) -> str:
    """Compute a digest of all tensors that the draws of a posterior are made of.

    Args:
        posterior: The posterior.

    Returns:
        The digest, the same on every device.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(flatten(posterior.source.state).items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _density(tensors: dict[str, Tensor], place: int, path: Path) -> Density:
    own = part(tensors, f"density {place}/")
    if set(own) != set(Density._fields) or any(tensor.dtype != torch.float64 for tensor in own.values()):
        raise CheckpointError("lacks a density", value=path, fix=FIX)
    density = Density(**own)
    fits = density.floor.dim() == density.center.dim() == 1 and density.whitener.dim() == 2
    if not fits or density.whitener.shape[1] != len(density.center):
        raise CheckpointError("holds a density whose parts do not fit together", value=path, fix=FIX)
    return density
