"""The scores of a row that a detector combines: distances at several depths of the network, and the posterior's doubt.

    input, one for each layer     distance by a density of the statistics there       small ones are unusual too
    entropy                       of the predicted class probabilities
    disagreement                  of the drawn networks: mutual information of classes, log of the standard deviation
                                  of numbers under the posterior

Small distances count because rows that are plainer than any training row, such as flat images, lie near the centre. The
layers are those of one network, that of the mean weights; of draws that have no useful mean, such as an ensemble's, the
first. Inputs are read that hold real numbers and, in all rows of the fit, finite ones: masks with infinite entries are
not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import DataError, ParameterError
from r2d2net.inference.base import Draws
from r2d2net.novelty.density import Density, fit_density
from r2d2net.novelty.layer_statistics import LayerReader, Statistics, input_parts, layers_to_read
from r2d2net.position_predictions import LabelProbabilities
from r2d2net.posterior import Posterior
from r2d2net.prediction import Classification, Mixture, Prediction

ENTROPY, DISAGREEMENT = "entropy", "disagreement"


class Reading(NamedTuple):
    """How rows are read.

    Attributes:
        draws: Number of networks whose predictions are compared.
        seed: Seed of the draws.
        rows: Largest number of rows in memory at a time.
    """

    draws: int
    seed: int
    rows: int


class RowScores:
    """Scores of rows by a posterior and densities at some depths.

    Args:
        posterior: The posterior.
        reader: The network and its layers.
        densities: A density for each depth.
        reading: How rows are read.
    """

    def __init__(
        self, posterior: Posterior[Any], reader: LayerReader, densities: Mapping[str, Density], reading: Reading
    ) -> None:
        self.posterior, self.reader, self.densities, self.reading = posterior, reader, dict(densities), reading

    def of(self, inputs: Any) -> dict[str, Tensor]:
        """Compute the scores of rows, large where a row is unusual.

        Args:
            inputs: Inputs in the user's units, a tensor or a tuple of tensors.

        Returns:
            The scores by name, each (rows,), in float64 on the CPU.

        Raises:
            DataError: If an input that is read has infinite values.
        """
        for name, part in input_parts(inputs).items():
            if name in self.reader.inputs and not _is_finite(part):
                problem = f"has infinite values in {name}, which had none in the rows of the fit"
                raise DataError(problem, argument="x", fix="fit the detector to rows that have some too")
        blocks = [self._block(block) for block in blocks_of(inputs, self.reading.rows)]
        return {name: torch.cat([block[name] for block in blocks]) for name in blocks[0]}

    def _block(self, block: Any) -> dict[str, Tensor]:
        statistics = self.reader.read(self.posterior.network_inputs(block))
        distances = {depth: density.distance(statistics[depth]) for depth, density in self.densities.items()}
        prediction = self.posterior.predict(block, self.reading.draws, seed=self.reading.seed)
        return {name: score.nan_to_num(nan=torch.inf) for name, score in (distances | doubts(prediction)).items()}


def fit_densities(posterior: Posterior[Any], reader: LayerReader, inputs: Any, reading: Reading) -> dict[str, Density]:
    """Fit a density of the training rows' statistics at each depth.

    Args:
        posterior: The posterior.
        reader: The network and its layers.
        inputs: Training rows in the user's units.
        reading: How rows are read.

    Returns:
        The densities by depth.
    """
    found = [reader.read(posterior.network_inputs(block)) for block in blocks_of(inputs, reading.rows)]
    densities = {}
    for depth in list(found[0]):  # what is done with is let go
        values, spreads = (torch.cat(parts) for parts in zip(*(block.pop(depth) for block in found), strict=True))
        densities[depth] = fit_density(Statistics(values, spreads), reading.seed)
    return densities


def reader_of(posterior: Posterior[Any], few: Any, every: Sequence[Any], seed: int) -> LayerReader:
    """Choose the network that is read, its layers and its inputs.

    Args:
        posterior: The posterior.
        few: A few rows in the user's units.
        every: All rows of the fit, training rows and held-back rows: inputs with an infinite value in any are not read.
        seed: Seed of the draw, where the posterior has no mean network.

    Returns:
        The reader.
    """
    network = network_of(posterior, seed)
    standardised = posterior.network_inputs(few)
    layers = layers_to_read(posterior.model, network, standardised)
    named = [input_parts(rows) for rows in every]
    inputs = [
        name
        for name, part in input_parts(standardised).items()
        if part.is_floating_point() and all(_is_finite(parts[name]) for parts in named)
    ]
    return LayerReader(posterior.model, network, layers, inputs)


def network_of(posterior: Posterior[Any], seed: int) -> Draws:
    """Return the mean network of a posterior, or its first draw where there is none.

    Args:
        posterior: The posterior.
        seed: Seed of the draw.

    Returns:
        Draws of that one network.
    """
    try:
        return posterior.source.center()
    except ParameterError:  # the mean of several solutions is no network
        return posterior.source.joined(1, torch.Generator(posterior.model.device).manual_seed(seed))


def doubts(prediction: Prediction) -> dict[str, Tensor]:
    """Compute how uncertain a prediction is of each row.

    Args:
        prediction: The prediction.

    Returns:
        The scores by name, (rows,), averaged over outputs or positions.
    """
    if isinstance(prediction, Classification):
        found = {ENTROPY: prediction.entropy, DISAGREEMENT: prediction.mutual_information}
    elif isinstance(prediction, Mixture):
        spread = prediction.epistemic
        found = {DISAGREEMENT: spread.clamp(min=torch.finfo(spread.dtype).tiny).log()}
    else:
        found = {DISAGREEMENT: prediction.std} if isinstance(prediction, LabelProbabilities) else {}
    return {name: score.cpu().double().reshape(len(score), -1).mean(1) for name, score in found.items()}


def blocks_of(inputs: Any, rows: int) -> Iterator[Any]:
    """Split rows into blocks.

    Args:
        inputs: A tensor or a tuple of tensors.
        rows: Largest number of rows of a block.

    Yields:
        The blocks.
    """
    if isinstance(inputs, tuple):
        yield from zip(*(part.split(rows) for part in inputs), strict=True)
    else:
        yield from inputs.split(rows)


def _is_finite(part: Tensor) -> bool:
    return bool(torch.isfinite(part).all())
