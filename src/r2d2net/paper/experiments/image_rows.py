"""A row fitted to the training images of a set, and the test images on which it is measured."""

from __future__ import annotations

from typing import Any, NamedTuple

from r2d2net import metrics
from r2d2net.data import ImageSet
from r2d2net.paper.experiments.grid import Place, Settings
from r2d2net.paper.experiments.images import Images, first, image_net, set_of, training_images
from r2d2net.paper.experiments.row_fitting import Chosen, fit_row


class FittedRow(NamedTuple):
    """A fitted row and its test images.

    Attributes:
        chosen: The fit, and all candidates.
        images: The training images, and how others are preprocessed.
        test: The test images, as many as the cell asks for.
        draws: Draws of the posterior for a prediction.
    """

    chosen: Chosen
    images: Images
    test: ImageSet
    draws: int

    def predict(self, pictures: Any = None) -> Any:
        """Predict the classes of images.

        Args:
            pictures: Images before preprocessing; None for the test images.

        Returns:
            The prediction.
        """
        given = self.test.images if pictures is None else pictures
        return self.chosen.posterior.predict(self.images.prepare(given), self.draws)


def fit_images(settings: Settings, place: Place, name: str, split: str = "test") -> FittedRow:
    """Fit a cell's row to a set of images.

    Args:
        settings: Those of the cell: net, test, draws, seed, and what `fit_row` reads.
        place: Where the cell may write.
        name: Name of the set.
        split: Name of its part for the test.

    Returns:
        The fitted row.
    """
    train = set_of(name, "train")
    images = training_images(settings, train)
    net = image_net(settings["net"], images, len(train.classes))
    chosen = fit_row(settings, net, images, place, **images.options)
    test = first(set_of(name, split), settings["test"], settings["seed"])
    return FittedRow(chosen, images, test, settings["draws"])


def class_scores(labels: Any, predicted: Any) -> dict[str, float]:
    """Compute accuracy in percent, NLL and ECE.

    Args:
        labels: The classes.
        predicted: Their prediction.

    Returns:
        The scores by name.
    """
    return {
        "accuracy": 100 * metrics.accuracy(labels, predicted.probs),
        "nll": metrics.nll(labels, predicted),
        "ece": metrics.ece(labels, predicted.probs),
    }
