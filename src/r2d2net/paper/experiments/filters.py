"""Figure "filters": the five convolution filters of largest norm of each design, and what they make of an image.

As in the paper the network is one convolution and one linear layer; its filters are of 16 x 16 pixels as in the
authors' code, so that patterns can be seen in them. The paper does not name the images: ours are CIFAR-10. It speaks of
noise and of lost features: roughness, deviations under the posterior and the share of weights near zero put numbers on
both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from r2d2net import metrics, nets
from r2d2net.json_arrays import pack
from r2d2net.nets.simple_cnn import PADDING
from r2d2net.paper.experiments import TITLES
from r2d2net.paper.experiments.artefact import Artefact, Scale, cells_of_rows
from r2d2net.paper.experiments.grid import Cell, Place, Settings
from r2d2net.paper.experiments.images import (
    first,
    less_than,
    ours,
    papers,
    set_of,
    short_run,
    training_device,
    training_images,
)
from r2d2net.paper.experiments.row_fitting import fit_row
from r2d2net.posterior import Posterior

ROWS = ("gauss-svi", "gauss-svgi", "hs-svi", "hs-svgi", "r2d2-svgi")
LARGEST, NEAR_ZERO = 5, 0.1  # near zero: below a tenth of the deviation of He's start

SIZES: dict[Scale, Settings] = {
    "smoke": ours(400, 200, 1, 10, 1.0),
    "machine": short_run(10_000, 2_000, 6, 20),
    "paper": papers(1000),
}


def cells(scale: Scale, replicates: int | None = None) -> Sequence[Cell]:
    """Return every row in every replicate; the figure shows the first replicate."""
    return cells_of_rows(ROWS, replicates or 1, 3300, {"kernel": 16, "validation": 0.1, **SIZES[scale]})


def compute(settings: Settings, place: Place) -> dict[str, Any]:
    """Fit a row; return its largest filters, their deviations, and their feature maps of a test image."""
    train = set_of("cifar10", "train")
    images = training_images(settings, train)
    net = nets.SimpleCNN(classes=len(train.classes), kernel=settings["kernel"], activation="softplus")
    chosen = fit_row(settings, net.to(training_device()), images, place, **images.options)
    test = first(set_of("cifar10", "test"), settings["test"], settings["seed"])
    x = images.prepare(test.images)
    predicted: Any = chosen.posterior.predict(x, settings["draws"])

    mean, drawn, bias = _filters(chosen.posterior, settings["draws"], settings["seed"])
    order = mean.flatten(1).norm(dim=1).argsort(descending=True)
    kept = order[:LARGEST]
    deviation = drawn.std(dim=0)
    maps = torch.stack([conv2d(x[:1], w[kept], b[kept], padding=PADDING)[0] for w, b in zip(drawn, bias, strict=True)])
    start = (2 / mean[0].numel()) ** 0.5
    return {
        "accuracy": 100 * metrics.accuracy(test.labels, predicted.probs),
        "signal": _share(mean[kept], deviation[kept]),
        "signal_of_all": _share(mean, deviation),
        "roughness": float(torch.stack([roughness(kernel) for kernel in mean[kept]]).mean()),
        "near_zero": float((mean.abs() < NEAR_ZERO * start).float().mean()),
        "norms": mean.flatten(1).norm(dim=1)[order].tolist(),
        "map_noise": float((maps.std(dim=0).square().mean() / maps.mean(dim=0).var(dim=(1, 2)).mean()).sqrt()),
        "tried": chosen.tried,
        "image": pack(test.images[0].float(), digits=3),
        "filters": pack(mean[kept], digits=3),
        "drawn": pack(drawn[0, kept[0]], digits=3),
        "maps": pack(maps.mean(dim=0), digits=3),
    }


def _filters(posterior: Posterior, draws: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean weights of the convolution, and draws of its weights and biases."""
    mean, drawn = posterior.named(posterior.mean()), posterior.named(posterior.sample(draws, seed=seed))
    return mean["conv.weight"].cpu(), drawn["conv.weight"].cpu(), drawn["conv.bias"].cpu()


def _share(mean: Tensor, deviation: Tensor) -> float:
    """Return the share of E w^2 that is due to the mean: 1 if all weights are certain, 0 if none is known."""
    signal, noise = float(mean.square().sum()), float(deviation.square().sum())
    return signal / (signal + noise)


def roughness(picture: Tensor) -> Tensor:
    """Measure the mean squared difference of neighbouring pixels, relative to that of independent pixels.

    Args:
        picture: Pixels, (channels, height, width).

    Returns:
        About 1 for white noise, near 0 for smooth pictures.
    """
    across = (picture[:, :, 1:] - picture[:, :, :-1]).square().mean()
    down = (picture[:, 1:] - picture[:, :-1]).square().mean()
    return (across + down) / (4 * picture.var(dim=(1, 2)).mean())


ARTEFACT = Artefact(
    name="filters",
    title=TITLES["filters"],
    cells=cells,
    compute=compute,
    reduced=lambda scale: less_than(SIZES[scale], SIZES["paper"]),
    data=("cifar10",),
    gpu=True,
)
