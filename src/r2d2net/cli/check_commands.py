"""The command `r2d2net check sbc`: which statements of an algorithm can be trusted, by tables drawn from the prior."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import Annotated, Any

import typer

from r2d2net.cli.elicit_command import save_figure
from r2d2net.errors import ParameterError
from r2d2net.options import Json, Quiet
from r2d2net.registry import ACTIVATIONS, ALGORITHMS, PRIORS

app = typer.Typer(help="Check algorithms where the truth is known.")


def _text(text: str) -> Any:
    return typer.Option(help=text, show_default=False)


@app.command()
def sbc(
    algorithm: Annotated[str, _text(f"Algorithm (svgi): {', '.join(ALGORITHMS)}.")] = "svgi",
    prior: Annotated[str, _text(f"Prior of the weights (r2d2): {', '.join(PRIORS)}.")] = "r2d2",
    hidden: Annotated[str, _text("Hidden units of each layer, such as 20,20; 0 is a linear model (0).")] = "0",
    activation: Annotated[str, _text(f"Activation of hidden units (tanh): {', '.join(ACTIVATIONS)}.")] = "tanh",
    inputs: Annotated[int, _text("Number of inputs (4).")] = 4,
    rows: Annotated[int, _text("Rows of each table (50).")] = 50,
    tables: Annotated[int, _text("Tables that are drawn and fitted (100).")] = 100,
    draws: Annotated[int, _text("Draws of each posterior (200).")] = 200,
    epochs: Annotated[int | None, _text("Length of a fit; by default the algorithm's own.")] = None,
    noise: Annotated[float, _text("Standard deviation of the noise, which is known (1).")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of tables and fits.")] = 0,
    plot: Annotated[Path | None, _text("PNG, PDF or SVG file for the figure.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw weights from a prior and tables from these, fit them, and see where the truth lies among the draws.

    For example `r2d2net check sbc --algorithm svgi --prior horseshoe --hidden 8 --plot ranks.png`.
    """
    for name, value, known in (("algorithm", algorithm, ALGORITHMS), ("prior", prior, PRIORS)):
        if value.lower() not in known:
            raise ParameterError(f"is no {name}", argument=name, value=value, fix=f"use {', '.join(known)}")
    for name, count in (("inputs", inputs), ("rows", rows)):
        if count < 1:
            raise ParameterError("is out of range", argument=name, value=count, fix="use a number from 1")
    if activation not in ACTIVATIONS:
        fix = f"use {', '.join(ACTIVATIONS)}"
        raise ParameterError("is not known", argument="activation", value=activation, fix=fix)
    widths = _widths(hidden)
    import torch

    import r2d2net as rn
    from r2d2net.diagnostics import vsbc
    from r2d2net.inference import method_named
    from r2d2net.run.global_generator import lent_generator
    from r2d2net.tables.terminal_output import progress_bar

    with lent_generator(seed, torch.device("cpu")):
        net = rn.nets.mlp(inputs, widths, 1, activation=activation)
    model = rn.BayesianModel(net, PRIORS.constructor(prior.lower())(), rn.likelihoods.Gaussian(noise=noise))
    method = method_named(algorithm.lower())
    with progress_bar("tables", verbose=not quiet) as progress:
        found = vsbc(
            model,
            method,
            rows=rows,
            tables=tables,
            draws=draws,
            epochs=epochs,
            seed=seed,
            progress=progress,
        )
    if plot is not None:
        save_figure(found.plot(), plot)
    if json:
        typer.echo(json_text.dumps(found.plain(), indent=2))
    elif not quiet:
        typer.echo(str(found))
        if plot is not None:
            typer.echo(f"figure: {plot}")


def _widths(hidden: str) -> list[int]:
    try:
        widths = [int(part) for part in hidden.split(",")]
    except ValueError:
        widths = [-1]
    if widths == [0]:
        return []
    if min(widths) < 1:
        fix = "give numbers of units such as 20,20, or 0"
        raise ParameterError("is no list of units", argument="hidden", value=hidden, fix=fix)
    return widths
