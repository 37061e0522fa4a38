"""Draws of what priors imply, as words, a table and a figure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Beta

from r2d2net.notebook_tables import axes_for, html_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MOST_CURVES = 30
SHOWN = 0.95  # share of predictions of numbers inside a plot's range, where no targets say what that is


class Implied(NamedTuple):
    """What one prior implies.

    Attributes:
        name: Name of the prior.
        r2: Draws of R2, (draws,); the mean over the outputs where there are several.
        effective: Draws of the effective number of inputs, (draws,); None where weights are not those of inputs.
        inputs: Number of inputs; 0 where `effective` is None.
        stated: Shapes of the beta distribution that the prior gives R2 by its definition, where that is in units of
            this noise; None elsewhere.
        targets: New targets at each row, one for each draw, (draws, rows, outputs); for classes the probability of the
            most probable class, or of class 1 of two; None without rows.
        curve: The only input of each row, (rows,), and the function of each draw there, (draws, rows); None elsewhere.
    """

    name: str
    r2: Tensor
    effective: Tensor | None
    inputs: int
    stated: tuple[float, float] | None = None
    targets: Tensor | None = None
    curve: tuple[Tensor, Tensor] | None = None


class Elicited:
    """What priors imply before any data; `elicit` makes it.

    Args:
        implied: What each prior implies.
        y: Observed targets, in the shape of the rows and outputs; None for none, or for classes.
        label: What predictions are: "new targets", or a probability.
    """

    def __init__(self, implied: tuple[Implied, ...], y: Tensor | None = None, label: str = "new targets") -> None:
        self.implied, self.y, self.label = implied, y, label

    def __repr__(self) -> str:
        """Say in a line for each prior what it implies."""
        return "\n".join(self._line(own) for own in self.implied)

    def _line(self, own: Implied) -> str:
        low, high = _quantiles(own.r2, (0.05, 0.95))
        words = f"{own.name}: R2 {float(own.r2.mean()):.2f} (90% of draws in {low:.2f} to {high:.2f})"
        if own.effective is not None:
            low, high = _quantiles(own.effective, (0.05, 0.95))
            mean = float(own.effective.mean())
            words += f", effective inputs {mean:.3g} ({low:.3g} to {high:.3g}) of {own.inputs}"
        share = self.beyond().get(own.name)
        return words if share is None else f"{words}; puts {share:.0%} of its mass beyond the largest |y|"

    def beyond(self) -> dict[str, float]:
        """Compute the share of new targets that are larger than every observed one in absolute value.

        Returns:
            The share by the prior's name; empty without observed targets.
        """
        if self.y is None:
            return {}
        largest = self.y.abs().max()
        return {
            own.name: float((~(own.targets.abs() <= largest)).double().mean())  # one that is infinite or nan counts
            for own in self.implied
            if own.targets is not None
        }

    def summary(self) -> pd.DataFrame:
        """Summarise the draws.

        Returns:
            A row for each prior and quantity: the mean and quantiles of R2 and of the effective number of inputs; of
            predictions, where rows were given, quantiles alone, since many priors have no mean.
        """
        import pandas as pd

        rows = []
        for own in self.implied:
            quantities = {"R2": own.r2, "effective inputs": own.effective, self.label: own.targets}
            for quantity, values in quantities.items():
                if values is not None:
                    mean = float("nan") if quantity == "new targets" else float(values.mean())
                    spread = dict(zip((f"{q:.0%}" for q in QUANTILES), _quantiles(values), strict=True))
                    rows.append({"prior": own.name, "quantity": quantity, "mean": mean, **spread})
        return pd.DataFrame(rows).set_index(["prior", "quantity"])

    def _repr_html_(self) -> str:
        """Show the summary in a notebook."""
        table = self.summary().reset_index()
        return html_table("what the priors imply before any data", list(table.columns), table.to_numpy().tolist())

    def plot(self) -> Figure:
        """Draw the implied priors side by side: R2, effective number of inputs, and predictions where there are any.

        Returns:
            The figure. Dashed lines are the beta distributions that priors give R2 by definition.

        Raises:
            ParameterError: If matplotlib is not installed.
        """
        panels: list[Callable[[Axes], None]] = [self._draw_r2]
        panels += [self._draw_effective] if any(own.inputs > 1 for own in self.implied) else []
        panels += [self._draw_targets] if any(own.targets is not None for own in self.implied) else []
        first = axes_for(None, 3.6 * len(panels), 3.0)
        figure = cast("Figure", first.figure)
        first.remove()
        for place, draw in enumerate(panels):
            axes = figure.add_subplot(1, len(panels), place + 1)
            axes.spines[["top", "right"]].set_visible(False)
            draw(axes)
        return figure

    def _draw_r2(self, axes: Axes) -> None:
        bins = np.linspace(0, 1, 31).tolist()
        for k, own in enumerate(self.implied):
            axes.hist(own.r2.numpy(), bins, density=True, histtype="step", color=f"C{k}", label=own.name, linewidth=1.5)
            if own.stated is not None:
                inner = torch.linspace(0.005, 0.995, 199, dtype=torch.float64)
                first, second = (torch.tensor(shape, dtype=torch.float64) for shape in own.stated)
                axes.plot(inner, Beta(first, second).log_prob(inner).exp(), "--", color=f"C{k}", linewidth=1)
        axes.set(xlabel="R2, the share that the inputs explain", ylabel="prior density", xlim=(0, 1))
        top = max(1.5, *(float(np.histogram(own.r2.numpy(), bins, density=True)[0].max()) for own in self.implied))
        axes.set_ylim(0, 1.15 * min(top, 12.0))
        axes.legend(frameon=False, fontsize="small")

    def _draw_effective(self, axes: Axes) -> None:
        counted = [(k, own.effective, own) for k, own in enumerate(self.implied) if own.effective is not None]
        most = max(_quantiles(values, (0.999,))[0] for _, values, _ in counted)
        bins = np.linspace(1, max(2.0, 1.05 * most), 31).tolist()
        for k, values, own in counted:
            axes.hist(values.numpy(), bins, density=True, histtype="step", color=f"C{k}", label=own.name, linewidth=1.5)
        axes.set(xlabel=f"effective number of the {counted[0][2].inputs} inputs", ylabel="prior density")

    def _draw_targets(self, axes: Axes) -> None:
        drawn = [(k, own) for k, own in enumerate(self.implied) if own.targets is not None]
        if all(own.curve is not None for _, own in drawn):
            self._draw_curves(axes)
            return
        bins = np.linspace(*self._range([own.targets for _, own in drawn if own.targets is not None]), 41).tolist()
        for k, own in drawn:
            assert own.targets is not None
            values = own.targets.flatten().numpy()
            weights = np.full(len(values), 1 / (len(values) * (bins[1] - bins[0])))  # what is outside counts too
            label = self._with_share(own.name)
            axes.hist(values, bins, weights=weights, histtype="step", color=f"C{k}", label=label, linewidth=1.5)
        if self.y is not None:
            axes.hist(self.y.flatten().numpy(), bins, density=True, color="0.8", label="observed", zorder=0)
        axes.set(xlabel=self.label, ylabel="prior predictive density")
        axes.set_ylim(0, (1.05 + 0.12 * (len(drawn) + 1)) * axes.get_ylim()[1])  # room for the legend
        axes.legend(frameon=False, fontsize="small")

    def _draw_curves(self, axes: Axes) -> None:
        ends = []
        for k, own in enumerate(self.implied):
            assert own.curve is not None
            at, functions = own.curve
            order = at.argsort()
            ends.append(functions)
            for i, values in enumerate(functions[:MOST_CURVES]):
                label = self._with_share(own.name) if i == 0 else None
                axes.plot(at[order], values[order], color=f"C{k}", alpha=0.4, linewidth=0.8, label=label)
            if self.y is not None and k == 0:
                axes.plot(at, self.y.flatten(), ".", color="0.3", markersize=3, label="observed", zorder=5)
        axes.set(xlabel="x", ylabel="functions drawn from the prior", ylim=self._range(ends))
        axes.legend(frameon=False, fontsize="small")

    def _with_share(self, name: str) -> str:
        share = self.beyond().get(name)
        return name if share is None else f"{name}: {share:.0%} beyond the largest |y|"

    def _range(self, values: list[Tensor]) -> tuple[float, float]:
        """Return the range to show: that of the observed targets, three times as wide; or that of most draws."""
        if self.label != "new targets":
            return 0.0, 1.0
        if self.y is not None:
            low, high = float(self.y.min()), float(self.y.max())
            room = (high - low) or 1.0
            low, high = low - room, high + room
            return (0.0 if float(self.y.min()) >= 0 and _are_counts(values) else low), high
        ends = [_quantiles(own, ((1 - SHOWN) / 2, (1 + SHOWN) / 2)) for own in values]
        low, high = float(np.median([low for low, _ in ends])), float(np.median([high for _, high in ends]))
        return (low, high) if high > low else (low - 1, low + 1)


def _are_counts(values: list[Tensor]) -> bool:
    return all(bool((own >= 0).all()) for own in values)


def _quantiles(values: Tensor, probabilities: tuple[float, ...] = QUANTILES) -> list[float]:
    flat = values.double().nan_to_num(nan=float("inf")).flatten()
    found: list[float] = np.quantile(flat.numpy(), probabilities, method="closest_observation").tolist()
    return found
