"""Tables "classification-lenet", "classification-alexnet" and "architectures": classification of images.

A network of each row is trained from scratch, its step size chosen on held-out images, and measured on test images by
accuracy, macro F1, and AUROC of each class against the rest. The paper has CIFAR-10, CIFAR-100 and TinyImageNet; at the
machine's scale the tables have CIFAR-10, and large networks a part of it and four rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from r2d2net import metrics
from r2d2net.paper.experiments import TITLES
from r2d2net.paper.experiments.artefact import Artefact, Scale
from r2d2net.paper.experiments.grid import Cell, Place, Settings
from r2d2net.paper.experiments.image_rows import class_scores, fit_images
from r2d2net.paper.experiments.images import ours, papers, short_run
from r2d2net.paper.experiments.table_rows import OURS, our_training

SETS = {"CIFAR-10": "cifar10", "CIFAR-100": "cifar100", "TinyImageNet": "tiny-imagenet"}
NETS = {"LeNet": "lenet", "AlexNet": "alexnet", "ResNet50": "resnet50", "ResNet101": "resnet101"}
TEST_SPLITS = {"tiny-imagenet": "val"}  # where it is not "test"

FOUR_ROWS = ("freq", "gauss-svi", "hs-svi", "r2d2-svgi")
LENET_ROWS = (
    "freq",
    "de",
    "mcd",
    "gauss-svi",
    "gauss-svgi",
    "gauss-mfvi",
    "gauss-radial",
    "hs-svi",
    "hs-svgi",
    "r2d2-svgi",
)
ARCHITECTURE_ROWS = (
    "freq",
    "de",
    "mcd",
    "gauss-svi",
    "gauss-svgi",
    "gauss-mfvi",
    "gauss-radial",
    "gauss-sgld",
    "gauss-sgmcmc",
    "hs-svi",
    "hs-svgi",
    "hs-sgmcmc",
    "sas-svi",
    "sas-svgi",
    "sas-sgld",
    "sas-sgmcmc",
    "r2d2-svgi",
)
ALEXNET_ROWS = (*ARCHITECTURE_ROWS[:-1], "r2d2-sgmcmc", "r2d2-svgi")

MEMBERS: dict[Scale, int] = {"smoke": 2, "machine": 3, "paper": 5}


class Size(NamedTuple):
    """What is run at a scale."""

    settings: dict[str, dict[str, Any]]  # the table's setting -> what of a cell's settings it decides
    rows: Sequence[str]
    replicates: int
    common: dict[str, Any]  # settings that all cells share, unless the table's setting decides them


def on_sets(net: str, *names: str) -> dict[str, dict[str, Any]]:
    """Return the settings of a table that has one network on several sets of images.

    Args:
        net: Name of the network in `NETS`.
        names: Names of the sets in `SETS`.

    Returns:
        What each setting of the table decides of a cell's settings.
    """
    return {name: {"set": SETS[name], "net": net} for name in names}


def of_nets(**counts: tuple[int | None, int | None]) -> dict[str, dict[str, Any]]:
    """Return the settings of a table that has several networks on CIFAR-10; few images have small batches.

    Args:
        counts: Numbers of training and test images by the name of the network in `NETS`; None for all.

    Returns:
        What each setting of the table decides of a cell's settings.
    """
    return {
        name: {"set": "cifar10", "net": NETS[name], "train": train, "test": test} | _batches(train)
        for name, (train, test) in counts.items()
    }


def _batches(train: int | None) -> dict[str, Any]:
    """Return a batch size that leaves enough steps in an epoch for batch norms to learn their statistics."""
    return {"batch_size": 16} if train is not None and train < 1_000 else {}


SMOKE = ours(200, 100, 1, 5, 1.0, batch_size=64)
PAPER = papers(1000)
ALL = None, None  # training and test images

LENET: dict[Scale, Size] = {
    "smoke": Size(on_sets("lenet", "CIFAR-10"), LENET_ROWS, 1, SMOKE),
    "machine": Size(on_sets("lenet", "CIFAR-10"), LENET_ROWS, 3, short_run(20_000, 10_000, 6, 20)),
    "paper": Size(on_sets("lenet", "CIFAR-10", "CIFAR-100"), LENET_ROWS, 5, PAPER),
}
ALEXNET: dict[Scale, Size] = {
    "smoke": Size(on_sets("alexnet", "CIFAR-10"), FOUR_ROWS, 1, SMOKE),
    "machine": Size(on_sets("alexnet", "CIFAR-10"), FOUR_ROWS, 3, short_run(8_000, 2_000, 5, 10)),
    "paper": Size(on_sets("alexnet", *SETS), ALEXNET_ROWS, 5, PAPER),
}
ARCHITECTURES: dict[Scale, Size] = {
    "smoke": Size(of_nets(LeNet=(200, 100), AlexNet=(100, 100)), FOUR_ROWS, 1, SMOKE),
    "machine": Size(
        of_nets(LeNet=(8_000, 1_000), AlexNet=(8_000, 1_000), ResNet50=(400, 200), ResNet101=(200, 200)),
        FOUR_ROWS,
        1,
        short_run(None, None, 3, 10, batch_size=64),
    ),
    "paper": Size(of_nets(LeNet=ALL, AlexNet=ALL, ResNet50=ALL, ResNet101=ALL), ARCHITECTURE_ROWS, 5, PAPER),
}


def cells(sizes: dict[Scale, Size], scale: Scale, replicates: int | None = None) -> Sequence[Cell]:
    """Return every row in every setting and replicate."""
    size = sizes[scale]
    return [
        Cell(
            f"{row}-{setting.lower()}-{replicate}",
            {
                "row": row,
                "setting": setting,
                "validation": 0.1,
                "method": {"members": MEMBERS[scale]} if row == "de" else {},
                "replicate": replicate,
                "seed": 2500 + replicate,
                **size.common,
                **decided,
            },
        )
        for replicate in range(size.replicates if replicates is None else replicates)
        for setting, decided in size.settings.items()
        for row in size.rows
    ]


def compute(settings: Settings, place: Place) -> dict[str, Any]:
    """Fit a row and measure it on test images."""
    name = settings["set"]
    fitted = fit_images(settings, place, name, TEST_SPLITS.get(name, "test"))
    labels, predicted = fitted.test.labels, fitted.predict()
    return {
        **class_scores(labels, predicted),
        "auroc": 100 * metrics.macro_auroc(labels, predicted.probs),
        "macro_f1": 100 * metrics.macro_f1(labels, predicted.probs),
        "tried": fitted.chosen.tried,
    }


def reduced(sizes: dict[Scale, Size], scale: Scale) -> str:
    """Say what a scale leaves out; "" for the paper's."""
    if scale == "paper":
        return ""
    size, full = sizes[scale], sizes["paper"]
    common = size.common
    images = "; ".join(
        f"{name}: {_count(cell['train'])} training and {_count(cell['test'])} test images, batches of "
        f"{cell['batch_size']}"
        for name, cell in ((name, {**common, **decided}) for name, decided in size.settings.items())
    )
    left_out = sum(row not in size.rows and row not in OURS for row in full.rows)
    return (
        f"{images}; {common['epochs']} epochs of {full.common['epochs']:,}, "
        f"{common['draws']} draws of {full.common['draws']}, no augmentation, "
        f"replicates: {size.replicates}{f'; {left_out} rows left out' if left_out else ''}; {our_training(common)}"
    )


def _count(images: int | None) -> str:
    return "all" if images is None else f"{images:,}"


def _artefact(name: str, sizes: dict[Scale, Size], data: tuple[str, ...]) -> Artefact:
    return Artefact(name, TITLES[name], partial(cells, sizes), compute, partial(reduced, sizes), data, gpu=True)


BY_LENET = _artefact("classification-lenet", LENET, ("cifar10", "cifar100"))
BY_ALEXNET = _artefact("classification-alexnet", ALEXNET, tuple(SETS.values()))
BY_ARCHITECTURE = _artefact("architectures", ARCHITECTURES, ("cifar10",))
