"""Out-of-distribution scores of image sets that all pass through one `Preprocess`.

The sets are given with their original pixels, uint8, and reach the posterior only through the preprocessing of its
training images. So no set can be recognised because it was normalised by its own mean or resized in another way.

Other properties of a set remain: Omniglot's black on white differs from MNIST's white on black by polarity alone. Where
that is not of interest, give `transforms.invert` of its images.
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
    """Compare each set of ``outside`` with ``inside``, after the same preprocessing and with the same weight draws.

    Args:
        posterior: The posterior of an image classifier.
        preprocess: The preprocessing of its training images.
        inside: Images of the distribution it was trained on, but not its training images.
        outside: Images of other distributions, by name.
        score: The uncertainty score, as for `metrics.ood_scores`.
        draws: The number of weight draws, or "mean".
        seed: The seed of the draws.

    Returns:
        The scores for each name in ``outside``.

    Raises:
        DataError: If a set is not a raw `ImageSet`, or the preprocessed images have different shapes.
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
