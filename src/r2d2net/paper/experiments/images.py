"""What the experiments on images share: sets cut to size, a network of each row, tuned on validation images."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from r2d2net import data, nets
from r2d2net.data import ImageSet, Preprocess, image_loader
from r2d2net.likelihoods import Categorical
from r2d2net.paper.experiments.device import device
from r2d2net.paper.experiments.fitted_rows import fitted, our_training
from r2d2net.paper.experiments.grid import Place, Settings
from r2d2net.paper.experiments.recipe import PAPER_AUGMENT
from r2d2net.paper.experiments.tuning import Tuned

SHORT_RUN = (0.3, 0.1)  # multiples of the default step size, of which validation images choose
# As many for mean-field rows. The share of rho's step size is what SVI and Radial have by default.
MEAN_FIELD = ({"factor": 0.3, "rho_share": 0.05}, {"factor": 0.3, "temperature": 0.01})


class Images(NamedTuple):
    """Training and validation images, ready for a network, and the preprocessing that made them so."""

    x: Tensor
    y: Tensor
    held_x: Tensor
    held_y: Tensor
    prepare: Preprocess
    raw: ImageSet  # the training images as they were, for what augments them


def ours(
    train: int | None, test: int | None, epochs: int, draws: int, *factors: float, batch_size: int = 128
) -> Settings:
    """A cell's settings of training by our defaults on so many images."""
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
    """The same for networks that so few epochs leave far from convergence."""
    return {**ours(train, test, epochs, draws, *SHORT_RUN, batch_size=batch_size), "mean_field": list(MEAN_FIELD)}


def papers(epochs: int) -> Settings:
    """A cell's settings of training as the paper does, on all images."""
    return {**ours(None, None, epochs, 100, 1.0, 0.3, 3.0, batch_size=1024), "recipe": "paper"}


def less_than(size: Settings, full: Settings) -> str:
    """What a part of CIFAR-10, trained by our defaults, leaves out; "" for the whole by the paper's recipe."""
    if size["recipe"] == "paper":
        return ""
    return (
        f"{size['train']:,} training images of 50,000, {size['epochs']} epochs of up to {full['epochs']}, batches of "
        f"{size['batch_size']}, no augmentation; {our_training(size)}"
    )


def first(images: ImageSet, count: int | None, seed: int) -> ImageSet:
    """So many images of a set, drawn by a seed; all of them, in another order, if it has fewer or count is None."""
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    return images[order[:count]]


def training_images(settings: Settings, train: ImageSet, *, grey: bool = False) -> Images:
    """A share of the training images is held out, by the cell's seed, to choose step sizes by."""
    chosen = first(train, settings["train"], settings["seed"])
    held = max(1, round(settings["validation"] * len(chosen)))
    prepare = Preprocess.fitted(chosen.images[held:], channels=1 if grey else None)
    x, y = prepare(chosen.images), chosen.labels
    return Images(x[held:], y[held:], x[:held], y[:held], prepare, chosen[slice(held, None)])


def fitted_row(settings: Settings, images: Images, classes: int, place: Place) -> Tuned:
    """A row's network, by name, fitted with each step size of the grid, of which the validation images choose."""
    channels, size = images.x.shape[1], images.x.shape[2]
    net = nets.build(settings["net"], channels=channels, classes=classes, size=size)
    return fitted_net(settings, net, images, place)


def fitted_net(settings: Settings, net: nn.Module, images: Images, place: Place) -> Tuned:
    """The same of any network; the paper's recipe augments the training images."""
    stream = None
    if settings["recipe"] == "paper":
        stream = image_loader(images.raw, images.prepare, PAPER_AUGMENT, batch_size=settings["batch_size"])
    sides = (images.x, images.y), (images.held_x, images.held_y)
    return fitted(settings, net.to(device()), *sides, place, likelihood=Categorical(), stream=stream, standardize=False)


def set_of(name: str, split: str) -> ImageSet:
    """A set by name, from the folder that R2D2NET_DATA names."""
    found = data.load(name, split=split)
    assert isinstance(found, ImageSet)
    return found
