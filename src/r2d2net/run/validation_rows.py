"""Predictions of the validation rows: those of a small perceptron by one batched pass of all draws.

The draws are those of `Posterior.predict`; the outputs differ by the rounding of products. For
a network of three small layers twenty passes one after the other cost more than the steps of an epoch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from r2d2net.inference import DrawSource
from r2d2net.inference.layered_pass import LayeredPass
from r2d2net.likelihoods.masked import masked_for
from r2d2net.model import BayesianModel
from r2d2net.posterior import Posterior
from r2d2net.prediction import Prediction
from r2d2net.run.prepare import Prepared

LARGEST = 1 << 21  # numbers in a layer's outputs of all draws and rows: they stay in a cache


class ValidationRows:
    """The validation rows of a run, and what networks predict for them.

    Args:
        model: The model.
        prepared: The data, with validation rows.
    """

    def __init__(self, model: BayesianModel[Any], prepared: Prepared) -> None:
        assert prepared.validation is not None
        self.model, self.prepared = model, prepared
        self.x, y = prepared.validation
        self.target = masked_for(model.likelihood, y).target(y)

        self.inputs: Any = None
        self.layers: LayeredPass | None = None

    def predict(self, source: DrawSource[Any], draws: int) -> Prediction:
        """Predict the rows.

        Args:
            source: What the networks are drawn from.
            draws: Number of draws.

        Returns:
            The prediction in the user's units.
        """
        posterior: Posterior[Any] = Posterior(source, self.prepared.units, flat_target=False)
        if self.inputs is None:
            self.inputs = inputs = posterior.network_inputs(self.x)
            is_table = isinstance(inputs, Tensor) and inputs.dim() == 2 and inputs.dtype == self.model.dtype
            self.layers = LayeredPass.of(self.model) if is_table else None
        layers, available = self.layers, source.available
        count = draws if available is None else min(draws, available)
        if layers is None or count * max(len(self.target) * layers.widest, self.model.size) > LARGEST:
            return posterior.predict(self.x, draws, seed=0)
        generator = torch.Generator(self.model.device).manual_seed(0)
        with torch.no_grad():
            networks = source.joined(count, generator)
            room = layers.room(count, networks.weights)
            room.parameters.copy_(torch.cat((networks.weights, networks.fixed), 1))
            outputs, _ = layers.given(room, self.inputs.expand(count, *self.inputs.shape))
            return self.model.likelihood.predict(outputs, networks.noise, self.prepared.units.y)
