"""A posterior's prediction as a plain `nn.Module`: inputs in the user's units in, predicted means out.

    x  ->  (x - centre) / scale  ->  networks  ->  likelihood  ->  mean, or mean and standard deviation

It is made of tensor operations alone, so that `torch.export` and ONNX can follow it, and its numbers are those of
`Posterior.predict` for the same draws. Several draws run at once by `torch.func.vmap`, or one after the other where the
network has parts without a rule for that.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap

from r2d2net.errors import ParameterError
from r2d2net.forward_draws import NO_VMAP
from r2d2net.frozen_parts import copy_sharing
from r2d2net.inference.base import Draws
from r2d2net.inference.network_batch import FUSED
from r2d2net.likelihoods.base import Unit
from r2d2net.model import BayesianModel, Tensors
from r2d2net.network_inputs import Units
from r2d2net.prediction import Classification, Mixture, Prediction


class PredictionModule(nn.Module):
    """The mean, or mean and standard deviation, that some draws of a network predict.

    Args:
        model: The model.
        drawn: The draws.
        units: Units of inputs and targets.
        flat_target: Whether the predictions have no dimension of outputs.
        spread: Return the standard deviation too.
    """

    net: nn.Module

    def __init__(
        self, model: BayesianModel[Any], drawn: Draws, units: Units, *, flat_target: bool, spread: bool
    ) -> None:
        super().__init__()
        self.model, self.flat_target, self.spread = model, flat_target, spread
        self.draws = len(drawn.weights)
        self.net = copy_sharing(model.net, model.frozen)
        first = {name: buffer[0] for name, buffer in drawn.buffers.items()}
        self.net.load_state_dict(model.state_dict(drawn.weights[0], drawn.fixed[0], first))
        self._own_buffers: list[str] = []  # names of buffers of the network, which have dots
        if self.draws > 1:
            self.register_buffer("weights", drawn.weights.clone())
            self.register_buffer("fixed", drawn.fixed.clone())
            for number, (name, buffer) in enumerate(drawn.buffers.items()):
                self.register_buffer(f"buffer{number}", buffer.clone())
                self._own_buffers.append(name)
        for name, tensor in _named(units).items():
            self.register_buffer(name, tensor.clone())
        self._noise = list(drawn.noise)
        for name, tensor in drawn.noise.items():
            self.register_buffer(f"noise_{name}", tensor.clone())
        self._exact = units.are_exact_for(model.dtype)
        self.eval()

    def train(self, mode: bool = True) -> PredictionModule:
        """Stay in evaluation mode, as predictions are made.

        Args:
            mode: Is not used.

        Returns:
            The module itself.
        """
        return super().train(False)

    def forward(self, *inputs: Any) -> Tensor | tuple[Tensor, Tensor]:
        """Compute the prediction at inputs in the user's units."""
        prediction = self.prediction(*inputs)
        if not self.spread:
            return prediction.mean
        if isinstance(prediction, Mixture):  # whose own has an operation that ONNX lacks
            return prediction.mean, (prediction.epistemic.square() + prediction.aleatoric.square()).sqrt()
        if not isinstance(prediction, Classification):
            problem = f"is not known of a {type(prediction).__name__}"
            raise ParameterError(problem, argument="spread", value=True, fix="leave it out")
        return prediction.mean, prediction.std

    def prediction(self, *inputs: Any) -> Prediction:
        """Compute the predictive distribution at inputs in the user's units.

        Args:
            inputs: The inputs of the network, each with a first dimension of rows.

        Returns:
            The prediction, as `Posterior.predict` gives it.
        """
        x = self._standardized(*inputs)
        outputs = self._outputs(x)
        noise = {name: self.get_buffer(f"noise_{name}") for name in self._noise}
        prediction: Prediction = self.model.likelihood.predict(outputs, noise, self._units().y)
        return prediction.without_output_dimension() if self.flat_target else prediction

    def _units(self) -> Units:
        named = dict(self.named_buffers(recurse=False))
        return Units(
            named["x_center"], named["x_scale"], Unit(named["y_center"], named["y_scale"], named.get("y_most"))
        )

    def _standardized(self, *inputs: Any) -> Any:
        dtype = next(p.dtype for p in self.net.parameters() if p.is_floating_point())
        if len(inputs) > 1 or not isinstance(inputs[0], Tensor):
            cast = [p.to(dtype) if isinstance(p, Tensor) and p.is_floating_point() else p for p in inputs]
            return tuple(cast) if len(inputs) > 1 else inputs[0]
        x = inputs[0]
        if self._exact:
            x = x.to(torch.float64)
        elif x.is_floating_point():
            x = x.to(dtype)
        x = self._units().inputs(x)
        return x.to(dtype) if x.is_floating_point() else x

    def _outputs(self, x: Any) -> Tensor:
        """Return the outputs of all draws, (draws, rows, width)."""
        if self.draws == 1:
            return _flat(self.model.call(self.net, {}, x)).unsqueeze(0)
        model = self.model
        tensors = {slot.name: slot.of(self.get_buffer("weights")) for slot in model.bayesian}
        tensors.update({slot.name: slot.of(self.get_buffer("fixed")) for slot in model.fixed})
        tensors.update({name: self.get_buffer(f"buffer{k}") for k, name in enumerate(self._own_buffers)})

        def output(own: Tensors) -> Tensor:
            return _flat(model.call(self.net, own, x))

        if not any(isinstance(module, FUSED) for module in self.net.modules()):
            try:
                together: Tensor = vmap(output)(tensors)
                return together
            except RuntimeError as error:
                if not any(sign in str(error) for sign in NO_VMAP):
                    raise
        each = [{name: tensor[k] for name, tensor in tensors.items()} for k in range(self.draws)]
        return torch.stack([output(own) for own in each])


def _named(units: Units) -> Tensors:
    y = units.y
    named = {"x_center": units.x_center, "x_scale": units.x_scale, "y_center": y.center, "y_scale": y.scale}
    return named if y.most is None else {**named, "y_most": y.most}


def _flat(output: Tensor) -> Tensor:
    """Return outputs as (rows, width), as `forward_draws` does."""
    return output.unsqueeze(-1) if output.dim() == 1 else output.flatten(1)  # len() would be a constant in an export
