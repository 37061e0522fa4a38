"""Table "pruning": how small a network becomes under each prior, by zeros and by units (ours; the paper has none).

Every cell trains the same plain network, fits a prior by coordinate ascent from there, and then

    zeros    prunes to several ratios by signal to noise, without training in between
    masks    prunes to the larger ratios one after the other, and fits what is left again before the next
    units    cuts and refits in rounds (`r2d2net.shrinkage.compress`), as far as validation images allow

"magnitude" is the plain network pruned by the size of its weights, and trained again for as many epochs with its zeros
held, for each ratio. The ratio that counts is chosen by validation images: the largest, up to which their log density
stays within one standard error. Test images are looked at once a posterior is there, and choose nothing. Cells resume
from their fits and rounds, and come replicate by replicate, so that a run that is stopped has compared like with like.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from r2d2net import priors
from r2d2net.inference import CAVI, MAP
from r2d2net.likelihoods import Categorical
from r2d2net.metrics import auroc, ece
from r2d2net.model import AnyPrior, BayesianModel
from r2d2net.nets.vgg import VGG
from r2d2net.paper.experiments import TITLES
from r2d2net.paper.experiments.artefact import Artefact, Scale
from r2d2net.paper.experiments.grid import Cell, Place, Settings
from r2d2net.paper.experiments.images import Images, first, set_of, training_images
from r2d2net.posterior import Posterior
from r2d2net.run.fit import fit
from r2d2net.shrinkage import Pruned, compress, prune
from r2d2net.shrinkage.compression import refit_step
from r2d2net.shrinkage.pruning import standing

SETS = {"lenet-300-100": ("mnist", "fashion-mnist"), "lenet-5-caffe": ("mnist", "fashion-mnist")}
SETS["vgg"] = ("cifar10", "svhn")
PRIORS = ("r2d2", "group-r2d2", "horseshoe", "group-horseshoe", "spike-and-slab", "gaussian")
RATIOS = (1, 10, 20, 40, 70, 100, 150, 200, 280, 400)
MASKED = tuple(ratio for ratio in RATIOS if ratio >= 70)  # at which what is left is fitted again


def _size(train: int | None, test: int | None, epochs: tuple[int, int, int], draws: int) -> Settings:
    """Return settings; epochs of the plain network, of the prior's fit and of every refit."""
    plain, own, refit = epochs
    return {
        "train": train,
        "test": test,
        "plain_epochs": plain,
        "epochs": own,
        "refit_epochs": refit,
        "draws": draws,
    }


PAPER = _size(None, None, (30, 100, 40), 100)
SIZES: dict[Scale, dict[str, Settings]] = {
    "smoke": {"lenet-300-100": _size(400, 200, (1, 2, 1), 3)},
    "machine": {
        "lenet-300-100": _size(None, None, (8, 25, 8), 20),
        "lenet-5-caffe": _size(None, None, (4, 8, 2), 5),
        "vgg": _size(5_000, 1_000, (5, 5, 1), 3),
    },
    "paper": dict.fromkeys(SETS, PAPER),
}
REPLICATES = {"lenet-300-100": 5, "lenet-5-caffe": 3, "vgg": 3}


def cells(scale: Scale, replicates: int | None = None) -> Sequence[Cell]:
    """Return a cell for each network and design, replicate by replicate."""
    designs = ("r2d2", "magnitude") if scale == "smoke" else (*PRIORS, "magnitude")
    own = dict.fromkeys(SIZES[scale], 1) if scale == "smoke" else dict(REPLICATES)
    if replicates is not None:
        own = dict.fromkeys(own, replicates)
    elif scale == "machine":
        own["vgg"] = 1
    return [
        Cell(f"{network}-{design}-{seed}", {**_settings(network, design, seed), **size})
        for seed in range(max(own.values()))
        for network, size in SIZES[scale].items()
        for design in designs
        if seed < own[network]
    ]


def _settings(network: str, design: str, seed: int) -> Settings:
    return {"network": network, "design": design, "seed": seed, "validation": 0.08, "batch_size": 128}


def network_of(name: str) -> nn.Module:
    """Build a network by its name in the literature on pruning."""
    if name == "vgg":
        return VGG(3, 10, 32)
    if name == "lenet-300-100":
        hidden = (nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 10))
        return nn.Sequential(nn.Flatten(), *hidden)
    features = (nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.Flatten())
    return nn.Sequential(*features, nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))


def prior_of(name: str) -> AnyPrior:
    """Return the prior of a design; groups are filters, and inputs of linear layers."""
    if name == "group-r2d2":
        return priors.GroupR2D2(groups="filters")
    if name == "group-horseshoe":
        return priors.GroupHorseshoe(groups="filters")
    kinds = {"r2d2": priors.R2D2, "horseshoe": priors.Horseshoe, "spike-and-slab": priors.SpikeSlab}
    kind: Any = kinds.get(name, priors.Gaussian)
    prior: AnyPrior = kind()
    return prior


def compute(settings: Settings, place: Place) -> dict[str, Any]:
    """Train, fit, prune and compress one network."""
    inside, outside = SETS[settings["network"]]
    images = training_images({**settings, "recipe": "ours"}, set_of(inside, "train"))
    test = first(set_of(inside, "test"), settings["test"], settings["seed"])
    other = first(set_of(outside, "test"), settings["test"], settings["seed"])
    rows = images.prepare(test.images), test.labels
    judged = _Judge(rows, images.prepare(other.images), settings["draws"])
    common: dict[str, Any] = {"batch_size": settings["batch_size"], "standardize": False, "verbose": False}
    common["seed"] = settings["seed"]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings["seed"])
        net = network_of(settings["network"])
    data = images.x, images.y
    model = BayesianModel(net, priors.Gaussian(), Categorical())
    plain = fit(model, data, MAP(), epochs=settings["plain_epochs"], resume=place.run / "plain", **common)
    net.load_state_dict(plain.state_dict())
    if settings["design"] == "magnitude":
        zeros = [_magnitude(plain, ratio, images, settings, place, common, judged) for ratio in RATIOS]
        return {"zeros": zeros, "chosen": _chosen(zeros), "masks": None, "units": None, "plain": judged.of(plain)}
    model = BayesianModel(net, prior_of(settings["design"]), Categorical())
    start = CAVI(start="net")
    posterior = fit(model, data, start, epochs=settings["epochs"], resume=place.run / "prior", **common)
    zeros = []
    for ratio in RATIOS:
        pruned = prune(posterior, ratio=ratio)
        zeros.append({"ratio": ratio, **_validated(pruned, images, settings), **judged.of(pruned)})
    masks = _masks(posterior, images, settings, place, common, judged)
    held = images.held_x, images.held_y
    rounds = {"refit_epochs": settings["refit_epochs"], "folder": place.run / "rounds", **common}
    small = compress(posterior, data, validation=held, **rounds)
    shapes = {slot.name: list(slot.shape) for slot in small.posterior.model.bayesian if len(slot.shape) > 1}
    row = small.rounds[small.chosen]
    units = {"dense": row.dense, "ratio": row.dense_ratio, "shapes": shapes, **judged.of(small.posterior)}
    found = {"zeros": zeros, "chosen": _chosen(zeros), "units": units, "plain": judged.of(plain)}
    return {**found, "masks": masks, "chosen_mask": _chosen([zeros[0], *masks])}


def _masks(
    posterior: Posterior[Any],
    images: Images,
    settings: Settings,
    place: Place,
    common: dict[str, Any],
    judged: _Judge,
) -> list[dict[str, Any]]:
    """Prune a posterior further and further, fit what is left again each time and judge it."""
    data, epochs = (images.x, images.y), settings["refit_epochs"]
    lr = refit_step(epochs * math.ceil(len(images.y) / settings["batch_size"]))
    found = []
    for ratio in MASKED:
        cut = prune(posterior, ratio=ratio)
        method = Pruned.going_on(cut, CAVI(lr=lr, warm_up=0.0))
        posterior = fit(cut.model, data, method, epochs=epochs, resume=place.run / f"mask-{ratio}", **common)
        found.append({"ratio": ratio, **_validated(posterior, images, settings), **judged.of(posterior)})
    return found


def _magnitude(
    plain: Posterior[Any],
    ratio: int,
    images: Images,
    settings: Settings,
    place: Place,
    common: dict[str, Any],
    judged: _Judge,
) -> dict[str, Any]:
    """Prune the plain network by magnitude, train what is left and judge it."""
    cut = prune(plain, ratio=ratio, score="magnitude")
    again = fit(
        plain.model,
        (images.x, images.y),
        Pruned.going_on(cut, MAP(lr=0.05)),
        epochs=settings["epochs"],
        resume=place.run / f"magnitude-{ratio}",
        **common,
    )
    return {"ratio": ratio, **_validated(again, images, settings), **judged.of(again)}


def _validated(posterior: Posterior[Any], images: Images, settings: Settings) -> dict[str, float]:
    found = standing(posterior, (images.held_x, images.held_y), settings["draws"])
    return {"validation": found.log_density, "validation_se": found.standard_error}


def _chosen(zeros: Sequence[dict[str, Any]]) -> int:
    """Return the largest ratio such that validation images are told as well up to it, within one standard error.

    Args:
        zeros: A row for each ratio, that of the whole network first.

    Returns:
        The ratio.
    """
    least = zeros[0]["validation"] - zeros[0]["validation_se"]
    chosen = zeros[0]["ratio"]
    for row in zeros:
        if row["validation"] < least:
            break
        chosen = row["ratio"]
    return int(chosen)


class _Judge:
    """Test images and images of another set, by which a posterior is judged."""

    def __init__(self, rows: tuple[Tensor, Tensor], other: Tensor, draws: int) -> None:
        self.rows, self.other, self.draws = rows, other, draws

    def of(self, posterior: Posterior[Any]) -> dict[str, float]:
        """Return error, negative log likelihood, calibration error and AUROC of the entropy."""
        x, y = self.rows
        predicted: Any = posterior.predict(x, draws=self.draws)
        elsewhere: Any = posterior.predict(self.other, draws=self.draws)
        entropy = torch.cat([predicted.entropy, elsewhere.entropy])
        is_other = torch.cat([torch.zeros(len(x)), torch.ones(len(self.other))])
        return {
            "error": float((predicted.label != y).double().mean()),
            "nll": -float(predicted.log_prob(y).double().mean()),
            "ece": float(ece(y, predicted.probs)),
            "auroc": float(auroc(is_other, entropy)),
        }


def reduced(scale: Scale) -> str:
    """Say what a scale leaves out; "" for the longest."""
    if scale == "smoke":
        return "400 images, two epochs, one network: figures mean nothing"
    if scale == "paper":
        return ""
    return (
        "25 epochs of LeNet-300-100 and 8 of LeNet-5-Caffe in place of 100, refits of 8 and 2 in place of 40; one "
        "replicate of the VGG, on 5,000 images, 5 epochs"
    )


ARTEFACT = Artefact(
    name="pruning",
    title=TITLES["pruning"],
    cells=cells,
    compute=compute,
    reduced=reduced,
    data=("mnist", "fashion-mnist", "cifar10", "svhn"),
)
