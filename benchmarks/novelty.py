"""The novelty score where the truth is known: images of other sets, and tables with planted novelty.

    python benchmarks/novelty.py images [--only mnist] [--runs out/novelty]
    python benchmarks/novelty.py controls [--runs out/novelty]
    python benchmarks/novelty.py tables

images    a LeNet by R2D2-SVGI, trained on 20,000 grey images of MNIST (6 epochs) or CIFAR-10 (12 epochs); densities by
          10,000 of them, p-values among 3,000 images that were held back; AUROC against 2,000 test images of each other
          set, beside entropy and mutual information, and false alarms on 2,000 test images inside
controls  what of the score is sharpness: the network of CIFAR-10, and its test images made smaller and large again,
          blurred, compressed or with less contrast; SVHN's images, which are crops of larger photographs brought to 32
          pixels, with a little noise; and how much of it a network has that saw 500 images once
tables    UCI tables, a perceptron by SVGI on 60% of the rows, 20% held back, 20% to test; AUROC of four kinds of
          planted novelty beside the rule of `r2d2net predict` (`tables.novelty`), which has 80% of the rows to learn
          from: columns shuffled apart, one column of each row moved by 3 deviations, all columns twice as far from
          their means, and a tenth as far

Of the sets outside only Fashion-MNIST was looked at before the rule was fixed, with the same networks and mostly other
images. Candidates were densities by Mahalanobis's distance and by nearest neighbours, distances counted on one side or
on both, three combinations (Fisher, Cauchy, the least p-value), and three choices of depths.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import r2d2net as rn
from r2d2net.data import ImageSet, Preprocess, corrupt
from r2d2net.data.transforms import resize
from r2d2net.files import write_json
from r2d2net.paper.experiments.images import first, set_of
from r2d2net.paper.experiments.ood_detection import elsewhere
from r2d2net.provenance import provenance, take_commit
from r2d2net.tables.novelty import learn_novelty

OUT = Path(__file__).parents[1] / "results" / "benchmarks"
EPOCHS = {"mnist": 6, "cifar10": 12}
TABLES = ("boston", "energy", "kin8nm", "naval", "wine", "yacht")
ALPHAS = (0.01, 0.05, 0.1)
TRAIN, HELD, CHOOSE, TEST, ROWS = 20_000, 3_000, 1_000, 2_000, 3_000


def auroc(inside: Any, outside: Any) -> float:
    """Return how well scores tell rows apart, in percent."""
    return round(100 * rn.metrics.compare_scores(inside, outside).auroc, 1)


def alarms(p_values: Any) -> dict[str, float]:
    """Return the share of rows that is called novel at each level."""
    return {str(alpha): float((torch.as_tensor(p_values) <= alpha).double().mean()) for alpha in ALPHAS}


def network(name: str, train: ImageSet, runs: Path) -> tuple[rn.Posterior[Any], Tensor, Preprocess]:
    """Fit the LeNet, or load a finished fit; the first images of the set are not trained on."""
    held = HELD + CHOOSE
    prepare = Preprocess.fitted(train.images[held:], channels=1)
    x, y = prepare(train.images), train.labels
    net = rn.nets.build("lenet", channels=1, classes=10, size=x.shape[-1])
    if (runs / name).is_dir():
        return rn.load(runs / name, net), x, prepare
    model = rn.BayesianModel(net, likelihood=rn.likelihoods.Categorical())
    options: dict[str, Any] = {"epochs": EPOCHS[name], "batch_size": 128, "standardize": False, "seed": 7}
    posterior = rn.fit(model, (x[held:], y[held:]), "svgi", validation=(x[:CHOOSE], y[:CHOOSE]), **options)
    posterior.save(runs / name)
    return posterior, x, prepare


def of_images(name: str, runs: Path) -> dict[str, Any]:
    """Measure the score of a network trained on one set, on the others."""
    posterior, x, prepare = network(name, first(set_of(name, "train"), TRAIN + HELD + CHOOSE, 7), runs)
    detector = rn.novelty.fit(posterior, x[HELD + CHOOSE :], holdout=x[CHOOSE : HELD + CHOOSE])

    def looked_at(images: ImageSet) -> tuple[Any, Any]:
        pixels = prepare(first(images, TEST, 11).images)
        return detector.combined(pixels), posterior.predict(pixels, 50)

    usual, sure = looked_at(set_of(name, "test"))
    found: dict[str, Any] = {"false alarms": alarms(usual.p_values), "outside": {}}
    for other, images in elsewhere().items():
        novel, unsure = looked_at(images)
        found["outside"][other] = {
            "novelty": auroc(usual.scores, novel.scores),
            "entropy": auroc(sure.entropy, unsure.entropy),
            "mutual information": auroc(sure.mutual_information, unsure.mutual_information),
            "alarms": alarms(novel.p_values),
            "parts": {part: auroc(-usual.parts[:, k], -novel.parts[:, k]) for k, part in enumerate(detector.names)},
        }
        print(name, other, found["outside"][other], flush=True)
    return found


def controls(runs: Path) -> dict[str, Any]:
    """Measure the score of the network of CIFAR-10 on its own test images, altered, and on SVHN's with noise."""
    train = first(set_of("cifar10", "train"), TRAIN + HELD + CHOOSE, 7)
    posterior, x, prepare = network("cifar10", train, runs)
    detector = rn.novelty.fit(posterior, x[HELD + CHOOSE :], holdout=x[CHOOSE : HELD + CHOOSE], draws=10)
    test = first(set_of("cifar10", "test"), TEST // 2, 11).images
    svhn = first(set_of("svhn", "test"), TEST // 2, 11).images
    altered = {
        "by 28 pixels": resize(resize(test, 28), 32),
        "by 24 pixels": resize(resize(test, 24), 32),
        "blur 2": corrupt(test, "blur", 2),
        "jpeg 1": corrupt(test, "jpeg", 1),
        "contrast 3": corrupt(test, "contrast", 3),
        "SVHN": svhn,
        "SVHN, noise 1": corrupt(svhn, "noise", 1),
    }
    usual = detector.combined(prepare(test))
    found = {}
    for name, pixels in altered.items():
        novel = detector.combined(prepare(pixels))
        found[name] = {"novelty": auroc(usual.scores, novel.scores), "alarms": alarms(novel.p_values)}
        print(name, found[name], flush=True)
    net, few = rn.nets.build("lenet", channels=1, classes=10, size=32), slice(HELD + CHOOSE, HELD + CHOOSE + 500)
    model = rn.BayesianModel(net, likelihood=rn.likelihoods.Categorical())
    learnt = rn.fit(model, (x[few], train.labels[few]), "svgi", epochs=1, batch_size=128, standardize=False, seed=7)
    detector = rn.novelty.fit(learnt, x[HELD + CHOOSE :], holdout=x[CHOOSE : HELD + CHOOSE], draws=10)
    usual = detector.combined(prepare(test))
    for name, images in elsewhere().items():
        novel = detector.combined(prepare(first(images, TEST // 2, 11).images))
        found[f"barely trained, {name}"] = {
            "novelty": auroc(usual.scores, novel.scores),
            "alarms": alarms(novel.p_values),
        }
        print(name, found[f"barely trained, {name}"], flush=True)
    return found


def planted(rows: np.ndarray, deviation: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return rows with each kind of novelty."""
    mean, count = rows.mean(0), len(rows)
    moved, columns = rows.copy(), rng.integers(0, rows.shape[1], count)
    moved[np.arange(count), columns] += 3 * deviation[columns] * rng.choice([-1, 1], count)
    return {
        "shuffled": np.stack([rng.permutation(column) for column in rows.T], 1),
        "one column moved": moved,
        "twice as far": mean + 2 * (rows - mean),
        "a tenth as far": mean + 0.1 * (rows - mean),
    }


def of_table(name: str) -> dict[str, Any]:
    """Measure the score and the rule of `r2d2net predict` on one table."""
    table: Any = rn.data.load(name)
    x, y = np.asarray(table.x, dtype=np.float64), np.asarray(table.y, dtype=np.float64).reshape(len(table.x), -1)[:, 0]
    order = np.random.default_rng(0).permutation(len(x))[:ROWS]
    x, y = x[order], y[order]
    cut, end = int(0.6 * len(x)), int(0.8 * len(x))
    tensors = torch.tensor(x, dtype=torch.float32)
    rows = tensors[:cut], torch.tensor(y[:cut], dtype=torch.float32)
    posterior = rn.fit(rn.BayesianModel(rn.nets.mlp(x.shape[1], [50], 1)), rows, epochs=60, seed=0, verbose=False)
    detector = rn.novelty.fit(posterior, tensors[:cut], holdout=tensors[cut:end], alpha=0.05)
    rule, test = learn_novelty(x[:end], 0), x[end:]
    usual = detector.combined(tensors[end:])
    found: dict[str, Any] = {
        "false alarms": {"novelty": alarms(usual.p_values), "rule": alarms(rule.typicality(test))},
        "auroc": {},
    }
    for kind, outside in planted(test, x.std(0), np.random.default_rng(1)).items():
        novel = detector.scores(torch.tensor(outside, dtype=torch.float32))
        distances = auroc(-rule.typicality(test), -rule.typicality(outside))
        found["auroc"][kind] = {"novelty": auroc(usual.scores, novel), "rule": distances}
    print(name, found, flush=True)
    return found


def main(arguments: list[str]) -> None:
    """Measure, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("images", "controls", "tables"))
    parser.add_argument("--only", choices=(*EPOCHS, *TABLES))
    parser.add_argument("--runs", type=Path, default=Path("out/novelty"))
    options = parser.parse_args(arguments)
    take_commit()
    if options.what == "controls":
        write_json(OUT / "novelty-controls.json", {**provenance({}, 0), "result": controls(options.runs)})
        return
    for name in EPOCHS if options.what == "images" else TABLES:
        if options.only in (None, name):
            found = of_images(name, options.runs) if options.what == "images" else of_table(name)
            write_json(OUT / f"novelty-{name}.json", {**provenance({"set": name}, 0), "result": found})


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1:])
