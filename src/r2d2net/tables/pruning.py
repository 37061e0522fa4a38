"""`r2d2net fit --prune`: a network of fewer hidden units, as few as validation rows allow.

The units go by `r2d2net.shrinkage.remove_units`: their fan-in or fan-out says nothing, and the mean log density of the
validation rows stays within one standard error of that of the whole network. What is left is an ordinary perceptron
with narrower layers. Inputs stay, as a saved model takes them all.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import torch

from r2d2net.errors import PruningWarning
from r2d2net.estimators.perceptron import numbers_of
from r2d2net.posterior import Posterior
from r2d2net.prediction import Regression
from r2d2net.run.calibration import noise_factor
from r2d2net.run.train import FINAL_DRAWS
from r2d2net.shrinkage.units import remove_units
from r2d2net.tables.table_models import TableClassifier, TableRegressor
from r2d2net.tables.training_table import TrainingTable

WHOLE = "whole"  # folder of the model before the cut, as long as the fit goes on
ROWS = 8  # by which the network is traced


def prune_model(estimator: TableRegressor | TableClassifier, table: TrainingTable) -> dict[str, Any]:
    """Cut hidden units of a fitted model that it does not need; the model changes in place.

    Args:
        estimator: The model, fitted to the rows of the table that are not held out.
        table: The table.

    Returns:
        "line", "weights" and "before" of matrices, and "layers": name, units before and after; for JSON.
    """
    assert table.held is not None
    x, y = table.x[table.held], table.y[table.held]
    targets = torch.from_numpy(np.asarray(y))
    if isinstance(estimator, TableClassifier):
        present = np.unique(table.y[~table.held].astype(np.int64))
        targets = torch.from_numpy(numbers_of(y.astype(np.int64), present))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PruningWarning)  # that a layer keeps its best unit is among the numbers
        smaller = remove_units(
            estimator.posterior_, table.x[:ROWS], "auto", validation=(x, targets), inputs=False, score="saliency"
        )
    layers = [{"layer": row.layer, "before": row.before, "after": row.after} for row in smaller.layers[:-1]]
    before, after = ([row[when] for row in layers] for when in ("before", "after"))
    estimator.posterior_ = _with_noise(smaller.posterior, x, targets)
    estimator._network = {**estimator._network, "hidden": after}
    whole = round(smaller.weights * smaller.ratio)
    line = (
        f"pruned: hidden units {'-'.join(map(str, before))} -> {'-'.join(map(str, after))}, weights {whole:,} -> "
        f"{smaller.weights:,} ({smaller.ratio:.3g} times fewer); validation rows are predicted as well within one "
        "standard error"
    )
    return {"line": line, "weights": smaller.weights, "before": whole, "layers": layers}


def _with_noise(posterior: Posterior[Any], x: np.ndarray, y: torch.Tensor) -> Posterior[Any]:
    """Correct a learnt noise variance by the validation rows, as `fit` does for the whole network."""
    predicted = posterior.predict(x, draws=FINAL_DRAWS)
    if isinstance(predicted, Regression) and posterior.model.likelihood.learns_noise:
        changed = copy.copy(posterior)
        changed.source = posterior.source.with_noise_factor(noise_factor(predicted, y))
        return changed
    return posterior
