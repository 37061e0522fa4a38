"""The command `r2d2net elicit`: what priors imply before any data."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import Annotated, Any

import typer

from r2d2net.errors import ParameterError
from r2d2net.options import Json, Quiet
from r2d2net.registry import LIKELIHOODS, PRIORS

app = typer.Typer()


def _text(text: str) -> Any:
    return typer.Option(help=text, show_default=False)


@app.command()
def elicit(
    mean_r2: Annotated[
        float | None, _text("Mean of R2, the share that the inputs explain (0.5 without --prior).")
    ] = None,
    precision_r2: Annotated[
        float | None, _text("Precision of R2 (2): R2 ~ Beta(mean precision, (1 - mean) precision).")
    ] = None,
    concentration: Annotated[
        float | None, _text("Concentration of the inputs' shares (0.2): the smaller, the fewer inputs count.")
    ] = None,
    prior: Annotated[
        list[str] | None, _text(f"Prior to compare, may be given several times: {', '.join(PRIORS)}.")
    ] = None,
    inputs: Annotated[int, _text("Number of inputs of the linear model (20).")] = 20,
    likelihood: Annotated[str | None, _text(f"Law of the target (gaussian): {', '.join(LIKELIHOODS)}.")] = None,
    classes: Annotated[int | None, _text("Number of classes of a categorical target.")] = None,
    mean_count: Annotated[float | None, _text("A typical mean count, for counts.")] = None,
    size: Annotated[float | None, _text("Concentration of a negative-binomial target, shape of a gamma one.")] = None,
    draws: Annotated[int, _text("Draws from each prior (4000).")] = 4000,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the draws.")] = 0,
    plot: Annotated[Path | None, _text("PNG, PDF or SVG file for the figure.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what priors say before any data: how much the inputs explain, and how many of them count.

    For example `r2d2net elicit --mean-r2 0.3 --precision-r2 5 --inputs 50 --plot prior.png`.
    """
    from r2d2net import priors

    chosen: dict[str, Any] = {}
    for name in prior or ():
        if name.lower() not in PRIORS:
            raise ParameterError("is no prior", argument="prior", value=name, fix=f"use {', '.join(PRIORS)}")
        chosen[name.lower()] = PRIORS.constructor(name.lower())()
    unused = {"precision_r2": precision_r2, "concentration": concentration}
    if mean_r2 is not None or not chosen:
        mean = 0.5 if mean_r2 is None else mean_r2
        chosen = {f"mean R2 {mean:g}": mean, **chosen}
    else:
        for argument, value in unused.items():
            if value is not None:
                problem = "is about a prior of R2"
                raise ParameterError(problem, argument=argument, value=value, fix="give --mean-r2 too, or leave it out")
    found = priors.elicit(
        chosen,
        2.0 if precision_r2 is None else precision_r2,
        0.2 if concentration is None else concentration,
        inputs=inputs,
        likelihood=likelihood,
        classes=classes,
        mean_count=mean_count,
        size=size,
        draws=draws,
        seed=seed,
    )
    if plot is not None:
        save_figure(found.plot(), plot)
    if json:
        rows = found.summary().reset_index().to_dict(orient="records")
        typer.echo(json_text.dumps(rows, indent=2))
    elif not quiet:
        typer.echo(repr(found))
        if plot is not None:
            typer.echo(f"figure: {plot}")


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure, whose format its name says.

    Args:
        figure: The figure of matplotlib, which is closed.
        path: The file.
    """
    from matplotlib import pyplot

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130)
    except ValueError as error:
        kinds = "name a file .png, .pdf or .svg"
        raise ParameterError("has a format that is not known", argument="plot", value=path, fix=kinds) from error
    except OSError as error:
        problem = f"cannot be written ({error.strerror})"
        raise ParameterError(problem, argument="plot", value=path, fix="name another file") from error
    finally:
        pyplot.close(figure)
