"""Tables "ood-mnist", "ood-cifar10" and "ood-drd": out-of-distribution detection by the uncertainty of ten methods.

Three further rows have the rivals' priors by SVGI, so that rivals have the algorithm of R2D2-Net too.

A LeNet is trained on the images of one set alone, and its predictive entropy has to tell test images of that set from
images of other sets. Our figures have a direction, in which uncertain images are outside; beside them are figures by
the paper's convention, the larger of both directions of the draws' mean entropy (see `metrics.ood`). A column of its
own has the novelty score of `r2d2net.novelty`, whose held-back images are those that chose the step size. All sets have
the preprocessing of the training images. The CIFAR-10 runs use grey images, as the authors' code does. Omniglot is
inverted to MNIST's white on black.

The paper's set of diabetic retinopathy is not public in its form: 500 images of APTOS 2019 stand in for it, grades 0
and 1 (nothing to refer) inside and grades 2 to 4 outside, and the figures must not be quoted as those of the paper's
set. With a hundred images to train on, batches are small and epochs many: a first run with the settings of the other
sets took five steps, and its accuracy on test images was that of guessing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from r2d2net import metrics, novelty
from r2d2net.data import ImageSet, ood_images, transforms
from r2d2net.paper.experiments import TITLES
from r2d2net.paper.experiments.artefact import Artefact, Scale, cells_of_rows
from r2d2net.paper.experiments.grid import Cell, Place, Settings
from r2d2net.paper.experiments.images import first, image_net, ours, papers, set_of, short_run, training_images
from r2d2net.paper.experiments.row_fitting import fit_row
from r2d2net.paper.experiments.table_rows import our_training

ROWS = (
    "de",
    "mcd",
    "gauss-svi",
    "gauss-svgi",
    "gauss-mfvi",
    "gauss-radial",
    "hs-svi",
    "hs-svgi",
    "sas-svi",
    "sas-svgi",
    "dpn",
    "edl",
    "r2d2-svgi",
)
ALARM = 0.05  # rate of false alarms of the novelty score that is reported
OUTSIDE = {"Fashion-MNIST": "fashion-mnist", "OMNIGLOT": "omniglot", "SVHN": "svhn"}

# EDL and DPN take a quarter of the others' step size by default, so multiples of 0.3 and 0.1 would be of that quarter.
QUARTER = {"edl": {"factors": [1.0, 0.3]}, "dpn": {"factors": [1.0, 0.3]}}

SEEN = {
    "drd": ". So many epochs of small batches were settled on after a first run of five steps, whose accuracy on test "
    "images was that of guessing"
}
REPLICATES: dict[Scale, int] = {"smoke": 1, "machine": 3, "paper": 5}
MEMBERS: dict[Scale, int] = {"smoke": 2, "machine": 3, "paper": 5}
SIZES: dict[Scale, Settings] = {
    "smoke": ours(600, 200, 1, 5, 1.0),
    "machine": short_run(20_000, 2_000, 5, 20),
    "paper": papers(100),
}
RETINAS: dict[Scale, Settings] = {
    "smoke": {"batch_size": 16},
    "machine": {"train": None, "test": None, "epochs": 60, "batch_size": 16},
    "paper": {},
}


def size_of(inside: str, scale: Scale) -> Settings:
    """Return the settings of training and testing at a scale.

    Args:
        inside: The set of in-distribution images: mnist, cifar10 or drd.
        scale: The scale.

    Returns:
        The settings that all cells share.
    """
    return {**SIZES[scale], **(RETINAS[scale] if inside == "drd" else {})}


def cells(inside: str, scale: Scale, replicates: int | None = None) -> Sequence[Cell]:
    """Return every row in every replicate."""
    common = {"inside": inside, "net": "lenet", "validation": 0.1, **size_of(inside, scale)}

    def settings(row: str) -> Settings:
        own = QUARTER.get(row, {}) if scale == "machine" else {}
        return {**common, **own, "method": {"members": MEMBERS[scale]} if row == "de" else {}}

    return cells_of_rows(ROWS, replicates or REPLICATES[scale], 2000, settings)


def compute(settings: Settings, place: Place) -> dict[str, Any]:
    """Fit a row; measure its accuracy, and how well its uncertainty detects the images of each other set."""
    seed, test = settings["seed"], settings["test"]
    train, inside, outside = SETS[settings["inside"]](settings)
    images = training_images(settings, train, grey=settings["inside"] == "cifar10")
    net = image_net(settings["net"], images, len(train.classes))
    chosen = fit_row(settings, net, images, place, **images.options)
    inside = first(inside, test, seed)
    outside = {name: first(other, test, seed) for name, other in outside.items()}
    prediction: Any = chosen.posterior.predict(images.prepare(inside.images), settings["draws"])
    sides = (chosen.posterior, images.prepare, inside, outside)
    directed = ood_images(*sides, draws=settings["draws"])
    paper = ood_images(*sides, "expected_entropy", draws=settings["draws"])
    detector = novelty.fit(
        chosen.posterior, images.x, holdout=images.held_x, alpha=ALARM, draws=settings["draws"], seed=seed
    )
    usual = detector.combined(images.prepare(inside.images))
    novel = {
        name: metrics.compare_scores(usual.scores, detector.scores(images.prepare(other.images)), "novelty")
        for name, other in outside.items()
    }
    return {
        "accuracy": 100 * metrics.accuracy(inside.labels, prediction.probs),
        "nll": metrics.nll(inside.labels, prediction),
        "tried": chosen.tried,
        "false_alarms": 100 * float((usual.p_values <= ALARM).double().mean()),
        "settings": {
            name: {
                "auroc": 100 * directed[name].auroc,
                "aupr": 100 * directed[name].aupr_out,
                "fpr95": 100 * directed[name].fpr95_out,
                "paper_auroc": 100 * paper[name].paper_auroc,
                "paper_aupr": 100 * paper[name].paper_aupr,
                "novelty_auroc": 100 * novel[name].auroc,
            }
            for name in outside
        },
    }


Sets = tuple[ImageSet, ImageSet, dict[str, ImageSet]]  # training images, test images, test images of other sets


def _digits(settings: Settings) -> Sets:
    return set_of("mnist", "train"), set_of("mnist", "test"), elsewhere()


def _photographs(settings: Settings) -> Sets:
    return set_of("cifar10", "train"), set_of("cifar10", "test"), elsewhere()


def elsewhere() -> dict[str, ImageSet]:
    """Return the test images of the sets outside by their names."""
    sets = {name: set_of(key, "test") for name, key in OUTSIDE.items()}
    return {**sets, "OMNIGLOT": replace(sets["OMNIGLOT"], images=transforms.invert(sets["OMNIGLOT"].images))}


def _retinas(settings: Settings) -> Sets:
    """Return grades 0 and 1 as the two classes inside, and grades 2 to 4 outside."""
    whole = first(set_of("diabetic-retinopathy", "all"), None, settings["seed"])
    known = whole[whole.labels <= 1]
    known = replace(known, classes=known.classes[:2])
    cut = len(known) // 2
    return known[slice(cut, None)], known[slice(0, cut)], {"DRD": whole[whole.labels >= 2]}


SETS: dict[str, Callable[[Settings], Sets]] = {"mnist": _digits, "cifar10": _photographs, "drd": _retinas}


def reduced(inside: str, scale: Scale) -> str:
    """Say what a scale leaves out; "" for the paper's."""
    size = size_of(inside, scale)
    if scale == "paper":
        return ""
    fewer = ""
    if size["train"] is not None:
        fewer = f"{size['train']:,} training images, {size['test']:,} test images of each set, "
    return (
        f"{fewer}{size['epochs']} epochs of the paper's 100, {size['draws']} draws of 100, batches of "
        f"{size['batch_size']}, no augmentation, replicates: {REPLICATES[scale]}; "
        f"{our_training(size)}{SEEN.get(inside, '')}"
    )


def _artefact(inside: str, data: tuple[str, ...]) -> Artefact:
    name = f"ood-{inside}"
    return Artefact(name, TITLES[name], partial(cells, inside), compute, partial(reduced, inside), data, gpu=True)


MNIST = _artefact("mnist", ("mnist", *OUTSIDE.values()))
CIFAR10 = _artefact("cifar10", ("cifar10", *OUTSIDE.values()))
DRD = _artefact("drd", ("diabetic-retinopathy",))
