"""Posteriors in folders: saved, read and checked, and put together for a network.

load("run", net)  =  read_saved: a file's tensors and header, all checked
                     load_saved: the model and the algorithm that the header describes, then `restored`
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from r2d2net.errors import CheckpointError
from r2d2net.inference.base import DrawSource, part
from r2d2net.interval_calibration import IntervalCalibration
from r2d2net.manifest import Parts, opened
from r2d2net.model import BayesianModel, Tensors, require_module
from r2d2net.network_calls import Output
from r2d2net.network_inputs import Units
from r2d2net.posterior import FILE, INTERRUPTED, Posterior
from r2d2net.saved_json import require_conforming
from r2d2net.saved_values import HEADER, require_drawable, require_levels, require_units, require_values
from r2d2net.specification import method_from, model_from, reading, require_classes, require_same_network


def save(posterior: Posterior[Any], folder: str | Path) -> Path:
    """Save a posterior into a folder, as `Posterior.save` does.

    Args:
        posterior: The posterior.
        folder: Folder to write, made where it is missing.

    Returns:
        Path of the file.
    """
    return posterior.save(folder)


def load(
    folder: str | Path, net: nn.Module, *, classes: Sequence[type] = (), mmap: bool = False, output: Output = None
) -> Posterior[Any]:
    """Load a posterior that was saved for a network of this architecture.

    Args:
        folder: Folder of the saved posterior.
        net: A network of the architecture that was fitted; it is not changed.
        classes: Classes of priors, likelihoods and algorithms from outside r2d2net that the run used. A file names
            classes; nothing is imported because a file names it.
        mmap: Leave large tensors, such as a sampler's draws, in the file and read them as they are needed. The file
            must not change as long as the posterior is used.
        output: The function by which the model picked one of the network's outputs, if it was one.

    Returns:
        The posterior.

    Raises:
        CheckpointError: If there is no complete posterior, the file is damaged, it is of another network, or a class
            that the run used is not in ``classes``.
        ParameterError: If an argument is of the wrong kind.
    """
    require_module(net)
    require_classes(classes)
    with opened(Path(folder)) as parts:
        if not parts.has(FILE) and (Path(folder) / INTERRUPTED).exists():
            fix = f"finish it by fit(..., resume={str(folder)!r})"
            raise CheckpointError("holds an interrupted run", value=Path(folder), fix=fix)
        return load_saved(read_saved(parts, mmap=mmap), net, classes, output)


class Saved(NamedTuple):
    """A posterior as its file has it, checked but not put together.

    Attributes:
        path: The file.
        tensors: Tensors by name.
        header: Everything else.
    """

    path: Path
    tensors: Tensors
    header: dict[str, Any]

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the run."""
        settings: dict[str, Any] = self.header["settings"]
        return settings


def read_saved(parts: Parts, *, mmap: bool = False) -> Saved:
    """Read the file of a posterior and check what it holds.

    Args:
        parts: The parts of its folder.
        mmap: As in `load`.

    Returns:
        The content.

    Raises:
        CheckpointError: If it is missing, altered or no saved posterior.
    """
    path = parts.folder / FILE
    tensors, header = parts.tensors(FILE, mmap=mmap)
    require_conforming(header, HEADER, path)
    require_values(tensors, path)
    return Saved(path, tensors, header)


def load_saved(saved: Saved, net: nn.Module, classes: Sequence[type] = (), output: Output = None) -> Posterior[Any]:
    """Put a posterior together.

    Args:
        saved: What `read_saved` returned.
        net: A network of the architecture that was fitted.
        classes: As in `load`.
        output: As in `load`.

    Returns:
        The posterior.

    Raises:
        CheckpointError: If it is of another network.
    """
    settings = saved.settings
    with reading(saved.path):
        model = model_from(net, settings["model"], classes, output)
        method, steps = method_from(settings["algorithm"], classes), settings["epochs"] * settings["batches"]
        if "fingerprint" not in settings["model"]:
            _take_frozen(model, saved.tensors)
        source = method.read(part(saved.tensors, "state/"), model, n=settings["n"], steps=steps)
        posterior: Posterior[Any] = restored(source, saved)
        require_same_network(model, settings["network"], saved.path.parent)
    return posterior


def _take_frozen(model: BayesianModel[Any], tensors: Tensors) -> None:
    """Move the values of frozen parameters, which files of earlier versions hold among the buffers, to the network."""
    for name in model.frozen:
        found = [key for key in tensors if key.endswith(f"buffers/{name}")]
        values = [tensors.pop(key) for key in found]
        if values:
            size = model.net.get_parameter(name).numel()
            model.frozen_parts.replace({name: values[0].reshape(-1)[:size]})


def restored(source: DrawSource[Any], saved: Saved) -> Posterior[Any]:
    """Return the posterior that a file describes, for the draws that were read from it."""
    levels = part(saved.tensors, "calibration/").get("levels")  # files of earlier versions have none
    units = Units.of(part(saved.tensors, "units/"), source.model.device)
    require_units(units, saved.path)
    require_drawable(source, saved.path)
    if levels is not None:
        require_levels(levels, saved.path)
    return Posterior(
        source,
        units,
        flat_target=saved.settings["flat_target"],
        history=saved.header["history"],
        settings=saved.settings,
        candidates=saved.header["candidates"],
        health=saved.header.get("health"),  # nor this
        calibration=None if levels is None else IntervalCalibration(levels.cpu()),
    )
