"""What the experiments on images share: sets cut to size, a network of each row, tuned on validation images."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net import data, nets
from r2d2net.data import ImageSet, Preprocess, image_loader
from r2d2net.experiments.grid import Place, Settings
from r2d2net.experiments.recipe import PAPER_AUGMENT, choice_by, method_by, prior_by
from r2d2net.experiments.tuning import Tuned, tuned_fit
from r2d2net.likelihoods import Categorical
from r2d2net.model import BayesianModel


class Images(NamedTuple):
    """Training and validation images, ready for a network, and the preprocessing that made them so."""

    x: Tensor
    y: Tensor
    held_x: Tensor
    held_y: Tensor
    prepare: Preprocess
    raw: ImageSet  # the training images as they were, for what augments them


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
    """A row's network, fitted with each step size of the grid, of which the validation images choose."""
    channels, size = images.x.shape[1], images.x.shape[2]
    net = nets.build(settings["net"], channels=channels, classes=classes, size=size)
    row, recipe, epochs = settings["row"], settings["recipe"], settings["epochs"]
    model = BayesianModel(net, prior_by(recipe, row, len(images.y)), Categorical())
    method = method_by(recipe, row, **settings["method"])
    given: Any = (images.x, images.y)
    options: dict[str, Any] = {"epochs": epochs, "seed": settings["seed"], **choice_by(recipe, method, epochs)}
    if recipe == "paper":
        given = image_loader(images.raw, images.prepare, PAPER_AUGMENT, batch_size=settings["batch_size"])
    else:
        options["batch_size"] = settings["batch_size"]
    factors = tuple(settings["factors"])
    return tuned_fit(
        model,
        given,
        method,
        (images.held_x, images.held_y),
        place.run,
        factors=factors,
        batches=max(1, len(images.y) // settings["batch_size"]),
        standardize=False,
        **options,
    )


def set_of(name: str, split: str) -> ImageSet:
    """A set by name, from the folder that R2D2NET_DATA names."""
    found = data.load(name, split=split)
    assert isinstance(found, ImageSet)
    return found
