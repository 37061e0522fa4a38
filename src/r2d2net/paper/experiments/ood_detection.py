"""Tables "ood-mnist", "ood-cifar10" and "ood-drd": telling images of another kind by the uncertainty of ten methods.

Three rows more have the rivals' priors by SVGI: rivals have the algorithm of R2D2-Net too.

A LeNet is trained on one set, in-distribution images only, and its predictive entropy has to tell test images of that
set from those of others. Figures have a direction, uncertain is outside; beside them stand those of the paper's
convention, the larger of both directions of the draws' mean entropy (see `metrics.ood`). All sets come through the one
preprocessing of the training images. The CIFAR-10 runs use grey images, as the authors' code does. Omniglot is inverted
to MNIST's white on black.

For diabetic retinopathy the paper's set is not public in its form: 500 images of APTOS 2019 stand in for it, grades 0
and 1 (nothing to refer) inside and grades 2 to 4 outside, and figures are not to be quoted as the paper's set's. With a
hundred images to train on, batches are small and epochs many: a first run with the settings of the other sets took five
steps, and its accuracy on test images was that of guessing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from r2d2net import metrics
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
    """How much of everything."""
    return {**SIZES[scale], **(RETINAS[scale] if inside == "drd" else {})}


def cells(inside: str, scale: Scale, replicates: int | None = None) -> Sequence[Cell]:
    """Every row in every replicate."""
    common = {"inside": inside, "net": "lenet", "validation": 0.1, **size_of(inside, scale)}

    def settings(row: str) -> Settings:
        own = QUARTER.get(row, {}) if scale == "machine" else {}
        return {**common, **own, "method": {"members": MEMBERS[scale]} if row == "de" else {}}

    return cells_of_rows(ROWS, replicates or REPLICATES[scale], 2000, settings)


def compute(settings: Settings, place: Place) -> dict[str, Any]:
    """A row's accuracy on its own images, and what its uncertainty says of the others; one entry a set outside."""
    seed, test = settings["seed"], settings["test"]
    train, inside, outside = SETS[settings["inside"]](settings)
    images = training_images(settings, train, grey=settings["inside"] == "cifar10")
    net = image_net(settings["net"], images, len(train.classes))
    chosen = fit_row(settings, net, images, place, **images.options)
    inside = first(inside, test, seed)
    outside = {name: first(one, test, seed) for name, one in outside.items()}
    prediction: Any = chosen.posterior.predict(images.prepare(inside.images), settings["draws"])
    sides = (chosen.posterior, images.prepare, inside, outside)
    found = ood_images(*sides, draws=settings["draws"])
    paper = ood_images(*sides, "expected_entropy", draws=settings["draws"])
    return {
        "accuracy": 100 * metrics.accuracy(inside.labels, prediction.probs),
        "nll": metrics.nll(inside.labels, prediction),
        "tried": chosen.tried,
        "settings": {
            name: {
                "auroc": 100 * found[name].auroc,
                "aupr": 100 * found[name].aupr_out,
                "fpr95": 100 * found[name].fpr95_out,
                "paper_auroc": 100 * paper[name].paper_auroc,
                "paper_aupr": 100 * paper[name].paper_aupr,
            }
            for name in outside
        },
    }


Sets = tuple[ImageSet, ImageSet, dict[str, ImageSet]]


def _digits(settings: Settings) -> Sets:
    return set_of("mnist", "train"), set_of("mnist", "test"), _elsewhere()


def _photographs(settings: Settings) -> Sets:
    return set_of("cifar10", "train"), set_of("cifar10", "test"), _elsewhere()


def _elsewhere() -> dict[str, ImageSet]:
    found = {name: set_of(key, "test") for name, key in OUTSIDE.items()}
    return {**found, "OMNIGLOT": replace(found["OMNIGLOT"], images=transforms.invert(found["OMNIGLOT"].images))}


def _retinas(settings: Settings) -> Sets:
    """Grade 0 against grade 1, as a classifier, and grades 2 to 4 outside."""
    whole = first(set_of("diabetic-retinopathy", "all"), None, settings["seed"])
    known = whole[whole.labels <= 1]
    known = replace(known, classes=known.classes[:2])
    cut = len(known) // 2
    return known[slice(cut, None)], known[slice(0, cut)], {"DRD": whole[whole.labels >= 2]}


SETS: dict[str, Callable[[Settings], Sets]] = {"mnist": _digits, "cifar10": _photographs, "drd": _retinas}


def reduced(inside: str, scale: Scale) -> str:
    """What a scale leaves out."""
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
