"""What the experiments on images share: settings of cells, sets cut to size and preprocessed, networks on a device."""

from __future__ import annotations

import re
from multiprocessing import current_process
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from r2d2net import data, nets
from r2d2net.data import ImageSet, Preprocess, image_loader
from r2d2net.likelihoods import Categorical
from r2d2net.paper.experiments.grid import Settings
from r2d2net.paper.experiments.table_rows import PAPER_AUGMENT, our_training

SHORT_RUN = (0.3, 0.1)  # multiples of the default step size, of which held-out images choose
# As many candidates for mean-field rows. The share of rho's step size is that of SVI and Radial by default.
MEAN_FIELD = ({"factor": 0.3, "rho_share": 0.05}, {"factor": 0.3, "temperature": 0.01})


class Images(NamedTuple):
    """Training and held-out images, preprocessed, and how test images are to be preprocessed."""

    x: Tensor
    y: Tensor
    held_x: Tensor
    held_y: Tensor
    prepare: Preprocess
    options: dict[str, Any]  # arguments of `fit_row` for images; the paper's recipe augments those it trains on


def ours(
    train: int | None, test: int | None, epochs: int, draws: int, *factors: float, batch_size: int = 128
) -> Settings:
    """Return settings of cells that train by our defaults.

    Args:
        train: Number of training images, of which some are held out; None for all.
        test: Number of test images; None for all.
        epochs: Epochs of training.
        draws: Draws of the posterior for a prediction.
        factors: Multiples of the default step size, of which held-out images choose.
        batch_size: Images of a step.

    Returns:
        The settings.
    """
    return {
        "train": train,
        "test": test,
        "epochs": epochs,
        "batch_size": batch_size,
        "factors": list(factors),
        "draws": draws,
        "recipe": "ours",
    }


def short_run(train: int | None, test: int | None, epochs: int, draws: int, *, batch_size: int = 128) -> Settings:
    """Return settings like `ours` for networks that these few epochs leave far from convergence."""
    return {**ours(train, test, epochs, draws, *SHORT_RUN, batch_size=batch_size), "mean_field": list(MEAN_FIELD)}


def papers(epochs: int) -> Settings:
    """Return settings of cells that train on all images as the paper does."""
    return {**ours(None, None, epochs, 100, 1.0, 0.3, 3.0, batch_size=1024), "recipe": "paper"}


def less_than(size: Settings, full: Settings) -> str:
    """Say what training on a part of CIFAR-10 by our defaults leaves out; "" for the paper's recipe."""
    if size["recipe"] == "paper":
        return ""
    return (
        f"{size['train']:,} training images of 50,000, {size['epochs']} epochs of up to {full['epochs']}, batches of "
        f"{size['batch_size']}, no augmentation; {our_training(size)}"
    )


def first(images: ImageSet, count: int | None, seed: int) -> ImageSet:
    """Draw images of a set.

    Args:
        images: The set.
        count: Number of images; None for all, in random order.
        seed: Seed of the draw.

    Returns:
        The images; all of them if the set has fewer.
    """
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    return images[order[:count]]


def training_images(settings: Settings, train: ImageSet, *, grey: bool = False) -> Images:
    """Draw the training images of a cell by its seed, and hold out a share of them to choose step sizes.

    Args:
        settings: Those of the cell: train, validation, seed, recipe, batch_size.
        train: All training images of the set.
        grey: Whether colours are removed.

    Returns:
        The images.
    """
    chosen = first(train, settings["train"], settings["seed"])
    held = max(1, round(settings["validation"] * len(chosen)))
    prepare = Preprocess.fitted(chosen.images[held:], channels=1 if grey else None)
    x, y = prepare(chosen.images), chosen.labels
    options: dict[str, Any] = {"likelihood": Categorical(), "standardize": False}
    if settings["recipe"] == "paper":
        raw = chosen[slice(held, None)]
        options["stream"] = image_loader(raw, prepare, PAPER_AUGMENT, batch_size=settings["batch_size"])
    return Images(x[held:], y[held:], x[:held], y[:held], prepare, options)


def image_net(name: str, images: Images, classes: int) -> nn.Module:
    """Build a network for images, on the device on which it is trained.

    Args:
        name: One of `r2d2net.nets`.
        images: Images of the right size and number of channels.
        classes: Number of classes.

    Returns:
        The network.
    """
    channels, size = images.x.shape[1], images.x.shape[2]
    return nets.build(name, channels=channels, classes=classes, size=size).to(training_device())


def training_device() -> torch.device:
    """Return the device on which this process trains networks for images: a GPU where there is one.

    The workers of a grid, whose names end in their numbers, take the GPUs in turn. The MLPs of the simulations and
    tables stay on the CPU, where steps as small as theirs take less time.
    """
    count = torch.cuda.device_count()
    if count == 0:
        return torch.device("cpu")
    number = re.search(r"\d+$", current_process().name)
    return torch.device("cuda", int(number[0]) % count if number else 0)


def set_of(name: str, split: str) -> ImageSet:
    """Load a set of images by name, from the folder in R2D2NET_DATA."""
    images = data.load(name, split=split)
    assert isinstance(images, ImageSet)
    return images
