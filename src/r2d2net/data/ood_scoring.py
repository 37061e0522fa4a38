"""Out-of-distribution figures of image sets, all brought to the network by one `Preprocess`.

The sets are given as they lie on disk, uint8, and nothing reaches the posterior but through the one preprocessing of
its training images. So no side can have been normalised by its own mean, or resized in another way, and be told by it.

What a set is by itself remains: Omniglot's black on white is told from MNIST's white on black by polarity alone. Where
that is not the question, give `transforms.invert` of its images.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from torch import Tensor

from r2d2net.data.image_set import ImageSet
from r2d2net.data.preprocess import Preprocess
from r2d2net.errors import Argument, DataError, Value
from r2d2net.metrics.ood import OODScores, Predictor, Score, compare_scores, uncertainty_scores


def ood_images(
    posterior: Predictor,
    preprocess: Preprocess,
    inside: ImageSet,
    outside: Mapping[str, ImageSet],
    score: Score = "entropy",
    *,
    draws: int | Literal["mean"] = 100,
    seed: int | None = 0,
) -> dict[str, OODScores]:
    """Compare each set of ``outside`` with ``inside``, all after the same preprocessing and with the same draws.

    Args:
        posterior: A posterior of a classifier of images.
        preprocess: The preprocessing of its training images.
        inside: Images of the kind it was trained on, not those it was trained on.
        outside: Images of other kinds, by name.
        score: As for `metrics.ood_scores`.
        draws: Number of weight draws, or "mean".
        seed: Seed of the draws.
    """
    if not isinstance(preprocess, Preprocess):
        fix = "give the Preprocess of the training images"
        raise DataError(("is a ", Value(type(preprocess))), argument="preprocess", fix=fix)
    x = _prepared(preprocess, "inside", inside)
    shape = tuple(x.shape[1:])
    in_scores = uncertainty_scores(posterior, x, score, draws=draws, seed=seed)
    results = {}
    for name, images in outside.items():
        x = _prepared(preprocess, f"outside[{name!r}]", images)
        if tuple(x.shape[1:]) != shape:
            problem = ("comes out as ", Value(tuple(x.shape[1:])), ", ", Argument("inside"), f" as {shape}")
            raise DataError(problem, argument=f"outside[{name!r}]", fix="use a Preprocess with a size")
        out_scores = uncertainty_scores(posterior, x, score, draws=draws, seed=seed)
        results[name] = compare_scores(in_scores, out_scores, score)
    return results


def _prepared(preprocess: Preprocess, name: str, images: ImageSet) -> Tensor:
    if not isinstance(images, ImageSet):
        fix = "give the raw ImageSet, preprocessing is done here"
        raise DataError(("is a ", Value(type(images))), argument=name, fix=fix)
    return preprocess(images.images)
