"""Cut and refit in rounds: a network as small as its task allows, or as small as asked.

    found = compress(model, (x, y), target=50, folder="small")
    print(found)                       a table of the rounds
    found.posterior, found.net         the last of them

Round 0 fits the model. Every further round cuts, units with a score below a threshold that rises from round to round or
weights up to a ratio that does, and fits what is left again, from where it is, by small steps: the default step of a
short run is too large for a trained network. Where weights are cut their zeros are held.

Without a target the rounds go on until the mean log density of validation rows is lower than in round 0 by more than
one standard error, and the last round before that counts. With a folder, which keeps each round, the same call goes on
after a kill.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple

import torch
from torch import Tensor, nn

from r2d2net.errors import ParameterError, PruningWarning, Value, require, require_seed, require_whole
from r2d2net.inference import CAVI, Method
from r2d2net.model import AnyPrior, BayesianModel, Slot
from r2d2net.network_inputs import as_tensors
from r2d2net.notebook_tables import html_table
from r2d2net.posterior import Posterior
from r2d2net.prediction import PredictionT
from r2d2net.run.batches import default_batch_size, mix, take
from r2d2net.run.fit import fit
from r2d2net.shrinkage.network_units import CONVOLUTIONS, LINEAR
from r2d2net.shrinkage.pruned import Pruned
from r2d2net.shrinkage.pruning import prune, require_rows, standing
from r2d2net.shrinkage.pruning_curve import left_of
from r2d2net.shrinkage.smaller_network import LayerUnits, SmallerNetwork, plain_network, weights_of
from r2d2net.shrinkage.units import remove_units

THRESHOLDS = (0.5, 2.0, 6.0, 15.0, 40.0, 100.0, 250.0)  # nats of a round
STEP, LEAST_STEP, FEW_STEPS = 0.05, 0.02, 400  # of a refit of few steps, of a long one, and what is few
FACTOR = 2.0  # between the ratios of rounds that cut weights
HELD_OUT = 0.1  # share of the rows for validation where none are given
SPLIT = -7  # of the seed, for the rows held out


class Round(NamedTuple):
    """One round.

    Attributes:
        round: Its number; 0 is the fit before any cut.
        cut: What was cut: the threshold in nats, or the ratio.
        weights: Weights of matrices and filters that are not zero.
        dense: Weights of matrices and filters of the dense network.
        ratio: How many times fewer weights are not zero than in round 0.
        dense_ratio: How many times fewer the dense network has.
        log_density: Mean log density of a validation row.
        standard_error: Its standard error.
        error: Share of wrong classes, or root mean squared error, of the validation rows.
    """

    round: int
    cut: float
    weights: int
    dense: int
    ratio: float
    dense_ratio: float
    log_density: float
    standard_error: float
    error: float


@dataclass(frozen=True)
class Compressed(Generic[PredictionT]):
    """The outcome of `compress`.

    Attributes:
        posterior: Posterior of the smallest network.
        rounds: What was reached in each round; the last that counts is ``chosen``.
        chosen: Number of the round that the posterior is of.
        whole: Posterior of round 0.
    """

    posterior: Posterior[PredictionT]
    rounds: tuple[Round, ...]
    chosen: int
    whole: Posterior[PredictionT] = field(repr=False)

    @property
    def net(self) -> nn.Module:
        """The plain network, with the posterior means of its weights."""
        return plain_network(self.posterior)

    def smaller(self) -> SmallerNetwork[PredictionT]:
        """Build what `remove_units` returns, to be measured and saved.

        Returns:
            The smaller network beside the whole one.
        """
        return SmallerNetwork(self.net, self.posterior, _layers(self.whole, self.posterior), None, (), self.whole)

    def __str__(self) -> str:
        def text(cell: float) -> str:
            return f"{cell:>14.5g}" if isinstance(cell, float) else f"{cell:>14}"

        head = " ".join(f"{name:>14}" for name in Round._fields)
        rows = (" ".join(map(text, row)) + ("  <" if row.round == self.chosen else "") for row in self.rounds)
        return "\n".join([head, *rows])

    def _repr_html_(self) -> str:
        return html_table(f"round {self.chosen} counts", Round._fields, self.rounds)


def compress(
    model: BayesianModel[PredictionT] | Posterior[PredictionT],
    data: tuple[Any, Any],
    target: float | None = None,
    *,
    cut: Literal["units", "weights"] = "units",
    validation: tuple[Any, Any] | None = None,
    algorithm: Method | None = None,
    epochs: int = 30,
    refit_epochs: int = 10,
    lr: float | None = None,
    prior: AnyPrior | None = None,
    thresholds: Sequence[float] = THRESHOLDS,
    batch_size: int | None = None,
    seed: int = 0,
    standardize: bool = True,
    folder: str | Path | None = None,
    verbose: bool = False,
) -> Compressed[PredictionT]:
    """Cut a network and fit it again, in rounds.

    Args:
        model: The model, or its posterior if it has been fitted by mean-field inference.
        data: Inputs and targets of all rows.
        target: How many times fewer weights are to be left; by default as few as validation rows allow.
        cut: "units" for a smaller dense network, "weights" for one with zeros.
        validation: Rows (x, y) that no round is fitted to; by default a tenth of ``data`` is held out.
        algorithm: Algorithm of round 0; CAVI by default. ``CAVI(start="net")`` starts from a trained network.
        epochs: Passes over the rows in round 0.
        refit_epochs: Passes in every other round.
        lr: Largest step of every other round, as a share of He's deviation; by default 0.05 up to 400 steps, and less
            in longer rounds, down to 0.02 at 1,600.
        prior: Prior of the weights in every other round, by default that of the model;
            ``GroupR2D2(groups="filters")`` lets units go together.
        thresholds: Scores in nats below which units go, of round 1, 2 and so on.
        batch_size: Rows of a step.
        seed: Seed of everything random.
        standardize: As in `r2d2net.fit`.
        folder: Where the rounds are kept, a folder for each; the same call with the same folder goes on after a kill.
        verbose: Show progress on a terminal.

    Returns:
        The posterior of the last round that counts, and all rounds as a table.

    Raises:
        ParameterError: If an argument lies outside its range.
        DataError: If the data do not fit the model.

    Warns:
        PruningWarning: If the target was not reached.
    """
    _require(target, cut, thresholds, lr)
    for name, value in (("epochs", epochs), ("refit_epochs", refit_epochs)):
        require_whole(name, value)
    require_seed(seed)
    rows, held = _split(require_rows(data, "data", least=2), validation, seed)
    place = None if folder is None else Path(folder)
    common: dict[str, Any] = {
        "batch_size": batch_size,
        "seed": seed,
        "standardize": standardize,
        "verbose": verbose,
    }
    if isinstance(model, Posterior):
        whole = model
    else:
        first = CAVI() if algorithm is None else algorithm
        whole = fit(model, rows, first, epochs=epochs, resume=_folder(place, 0), **common)
    total = weights_of(whole)
    rounds = [_round(0, 0.0, whole, total, held)]
    posteriors: list[Posterior[Any]] = [whole]
    least = rounds[0].log_density - rounds[0].standard_error
    size = default_batch_size(len(rows[1])) if batch_size is None else batch_size
    refit = CAVI(lr=refit_step(refit_epochs * math.ceil(len(rows[1]) / size)) if lr is None else lr, warm_up=0.0)
    small: Posterior[Any]
    for number, level in enumerate(_schedule(cut, target, thresholds, total), 1):
        last = posteriors[-1]
        if cut == "units":
            small = _quietly(remove_units, last, take(rows[0], slice(0, 8)), threshold=level).posterior
        else:
            small = _quietly(prune, last, weights=max(1, int(total / level)))
        again = small.model if prior is None else _with_prior(small.model, prior, whole.model)
        method = Pruned.going_on(small, refit)
        posteriors.append(fit(again, rows, method, epochs=refit_epochs, resume=_folder(place, number), **common))
        rounds.append(_round(number, level, posteriors[-1], total, held))
        if target is None and rounds[-1].log_density < least:
            break
        if target is not None and _reached(rounds[-1], cut) >= target:
            break
    if target is None:
        good = [row.round for row in rounds if row.log_density >= least]
        chosen = max(k for k in good if all(j in good for j in range(k + 1)))
    else:
        chosen = len(rounds) - 1
        if _reached(rounds[-1], cut) < target:
            reached = _reached(rounds[-1], cut)
            warnings.warn(
                f"{reached:.3g} times fewer weights in the last round, not {target:g}", PruningWarning, stacklevel=2
            )
    return Compressed(posteriors[chosen], tuple(rounds), chosen, whole)


def _with_prior(small: BayesianModel[Any], prior: AnyPrior, whole: BayesianModel[Any]) -> BayesianModel[Any]:
    """Copy a model with another prior, which layers of the whole network had weights enough for."""
    model, shapes = small.with_prior(prior), {slot.name: slot.shape for slot in whole.bayesian}

    def left(slot: Slot) -> Slot:
        own = slot.prior
        fits = own is not None and own.smaller(shapes[slot.name]) is own  # else the fit refuses it
        return slot._replace(prior=own.smaller(slot.shape)) if own is not None and fits else slot

    model.bayesian = tuple(map(left, model.bayesian))
    return model


def _layers(whole: Posterior[Any], small: Posterior[Any]) -> tuple[LayerUnits, ...]:
    """Return the units of linear layers and convolutions before and after."""
    modules = dict(whole.model.net.named_modules()), dict(small.model.net.named_modules())
    return tuple(
        LayerUnits(name, *(int(own[name].weight.shape[0]) for own in modules))  # type: ignore[arg-type]
        for name, module in modules[0].items()
        if isinstance(module, (*LINEAR, *CONVOLUTIONS))
    )


def refit_step(steps: int) -> float:
    """Choose the largest step of a refit: what a short run of a new network needs is too large for a trained one.

    Args:
        steps: Number of steps of the refit.

    Returns:
        The step, as a share of He's deviation.
    """
    return max(LEAST_STEP, STEP * min(1.0, (FEW_STEPS / steps) ** (2 / 3)))


def _require(target: float | None, cut: str, thresholds: Sequence[float], lr: float | None) -> None:
    require(cut in ("units", "weights"), "cut", cut, "use 'units' or 'weights'")
    is_number = isinstance(target, Real) and not isinstance(target, bool)
    require(target is None or (is_number and target > 1), "target", target, "use a number above 1, such as 50")
    has_some = isinstance(thresholds, Collection) and len(thresholds) > 0
    fits = has_some and all(isinstance(t, Real) and float(t) > 0 for t in thresholds)
    rises = fits and list(thresholds) == sorted(thresholds)
    require(rises, "thresholds", thresholds, "use numbers of nats above 0 that rise")
    require(lr is None or (isinstance(lr, Real) and 0 < lr < 10), "lr", lr, "use a number above 0, such as 0.02")


def _split(
    rows: tuple[Any, Any], validation: tuple[Any, Any] | None, seed: int
) -> tuple[tuple[Any, Tensor], tuple[Any, Tensor]]:
    """Return training and validation rows."""
    x, y = as_tensors(rows[0]), torch.as_tensor(rows[1])
    if validation is not None:
        held = require_rows(validation, "validation", least=2)
        return (x, y), (as_tensors(held[0]), torch.as_tensor(held[1]))
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(mix(seed, SPLIT))).to(y.device)
    count = max(2, round(HELD_OUT * len(y)))
    if count >= len(y):
        raise ParameterError(("has ", Value(len(y)), " rows"), argument="data", fix="give three or more")
    return (take(x, order[count:]), y[order[count:]]), (take(x, order[:count]), y[order[:count]])


def _folder(place: Path | None, number: int) -> Path | None:
    return None if place is None else place / f"round-{number}"


def _quietly(call: Any, *arguments: Any, **options: Any) -> Any:
    """Call a cut; that layers keep their best is no news between rounds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PruningWarning)
        return call(*arguments, **options)


def _schedule(cut: str, target: float | None, thresholds: Sequence[float], total: int) -> list[float]:
    """Return what each round cuts: thresholds, or ratios that double up to the target."""
    if cut == "units":
        return [float(t) for t in thresholds]
    most = total if target is None else float(target)
    ratios = [most]
    while ratios[0] > 2 * FACTOR:
        ratios.insert(0, ratios[0] / FACTOR)
    return ratios


def _reached(row: Round, cut: str) -> float:
    return row.dense_ratio if cut == "units" else row.ratio


def _round(number: int, value: float, posterior: Posterior[Any], total: int, held: tuple[Any, Tensor]) -> Round:
    found = standing(posterior, held, 20)
    left, dense = left_of(posterior), weights_of(posterior)
    return Round(number, value, left, dense, total / left, total / dense, *found)
