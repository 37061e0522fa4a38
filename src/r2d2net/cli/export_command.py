"""The command `r2d2net export`: a run as an ONNX file, for programs without Python."""

from __future__ import annotations

import json as json_text
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from r2d2net.errors import ParameterError
from r2d2net.options import Json, Quiet

app = typer.Typer()


def _text(text: str) -> Any:
    return typer.Option(help=text, show_default=False)


@app.command()
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run of `r2d2net fit`.", show_default=False)],
    onnx: Annotated[Path, _text("ONNX file to write.")],
    draws: Annotated[
        str | None, _text("mean, or a number of networks over which to average; by default the mean if there is one.")
    ] = None,
    spread: Annotated[bool, typer.Option("--spread", help="Let it give the standard deviation too.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the prediction of a run as an ONNX file, check it against predict, and print its latency.

    The file takes encoded inputs in the user's units, whose names are in its metadata under "r2d2net".
    """
    import torch

    from r2d2net.files import make_folder
    from r2d2net.onnx_export import write_onnx
    from r2d2net.tables.background import load_background
    from r2d2net.tables.run_folder import load_run

    fitted = load_run(run)
    if onnx.suffix.lower() != ".onnx" or onnx.is_dir():
        what = "is a folder" if onnx.is_dir() else "does not end in .onnx"
        raise ParameterError(what, argument="onnx", value=onnx, fix="give the name of a file such as model.onnx")
    make_folder(onnx.parent, "onnx")
    posterior = fitted.estimator.posterior_
    number = _draws(draws)
    if number is None:
        number = "mean" if _has_mean(posterior) else fitted.settings.draws
    rows, _ = load_background(run, fitted.columns, fitted.novelty, fitted.settings.seed)
    task = fitted.task
    facts = {
        "inputs": [name for column in fitted.columns.used for name in column.inputs],
        "targets": list(task.targets),
        "classes": [str(name) for name in task.classes],
    }
    x = torch.from_numpy(rows)
    report = write_onnx(posterior, onnx, x, draws=number, seed=fitted.settings.seed, spread=spread, facts=facts)
    if json:
        typer.echo(json_text.dumps({**asdict(report), "path": str(report.path), **facts}, indent=2))
    elif not quiet:
        typer.echo(str(report))


def _draws(given: str | None) -> int | Literal["mean"] | None:
    if given is None:
        return None
    if given.lower() == "mean":
        return "mean"
    if not given.isdigit() or int(given) < 1:
        raise ParameterError("is no number", argument="draws", value=given, fix="use mean or a whole number from 1")
    return int(given)


def _has_mean(posterior: Any) -> bool:
    """Return whether the mean weights are a network of their own."""
    try:
        posterior.mean()
    except ParameterError:
        return False
    return True
