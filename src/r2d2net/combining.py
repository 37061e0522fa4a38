"""Several posteriors of one model and the same rows as one mixture: `rn.combine`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch

from r2d2net.errors import ParameterError, Shown
from r2d2net.inference.base import copied, flatten
from r2d2net.inference.mean_field_family import MeanFieldDraws
from r2d2net.inference.mean_field_mixture import Combined, MeanFieldMixture
from r2d2net.posterior import Posterior
from r2d2net.prediction import Prediction
from r2d2net.specification import describe, describe_model

P = TypeVar("P", bound=Prediction)


def combine(posteriors: Sequence[Posterior[P]]) -> Posterior[P]:
    """Combine runs from different starts to one posterior, an equal mixture.

    Args:
        posteriors: Two or more posteriors of SVGI, CAVI, SVI, MFVI or Radial, of one model and the same rows.

    Returns:
        The mixture, which predicts, and is saved and loaded, like any other posterior. It shares no tensor with them.

    Raises:
        ParameterError: If they are not of one model, algorithm, units and rows.

    Example:
        >>> import r2d2net as rn
        >>> x = torch.arange(20.0).reshape(10, 2)
        >>> model = rn.BayesianModel(torch.nn.Linear(2, 1))
        >>> runs = [rn.fit(model, (x, x[:, 0]), epochs=1, seed=seed, verbose=False) for seed in (0, 1)]
        >>> combine(runs)
        Posterior(Combined, Gaussian likelihood, 3 weights by prior: 2 R2D2, 1 Gaussian)
    """
    if not isinstance(posteriors, (list, tuple)) or len(posteriors) < 2:
        raise ParameterError("is no list of two or more", argument="posteriors", fix="give [first, second]")
    sources: list[MeanFieldDraws] = []
    first = posteriors[0]
    for number, posterior in enumerate(posteriors):
        if not isinstance(posterior, Posterior) or not posterior.settings:
            problem = f"holds {type(posterior).__name__} at {number}"
            raise ParameterError(problem, argument="posteriors", fix="give what fit returned")
        if not isinstance(posterior.source, MeanFieldDraws):
            problem = f"holds one of {posterior.settings['algorithm']['type']} at {number}"
            raise ParameterError(
                problem, argument="posteriors", fix="give posteriors of SVGI, CAVI, SVI, MFVI or Radial"
            )
        differs = _difference(first, posterior)
        if differs is not None:
            problem = f"differs in {differs} at {number}"
            fix = (
                "give fits of one model and algorithm to the same rows; where validation is a share, give rows instead"
            )
            raise ParameterError(problem, argument="posteriors", value=Shown(repr(posterior)), fix=fix)
        source = posterior.source
        sources.append(source.with_state(copied(source.state)))
    method = Combined(parts=len(sources), of=first.settings["algorithm"])
    settings = {**first.settings, "algorithm": describe(method)}
    mixture: Posterior[P] = Posterior(
        MeanFieldMixture(sources), first.units, flat_target=first.flat_target, settings=settings
    )
    mixture.labels = first.labels
    return mixture


def _difference(one: Posterior[P], other: Posterior[P]) -> str | None:
    """Return in what two posteriors differ that a mixture has once."""
    if describe_model(one.model) != describe_model(other.model):
        return "the model"
    if one.settings["algorithm"] != other.settings["algorithm"]:
        return "the algorithm"
    mine, theirs = flatten(one.units), flatten(other.units)
    if mine.keys() != theirs.keys() or not all(torch.equal(mine[name], theirs[name]) for name in mine):
        return "units of inputs and targets"
    if one.settings["n"] != other.settings["n"]:
        return "the number of rows"
    data = [posterior.settings.get("data") for posterior in (one, other)]  # loops of one's own do not tell
    return "rows, or their order" if None not in data and data[0] != data[1] else None
