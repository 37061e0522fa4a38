"""`r2d2net fit --select`: columns of the table on which the target depends, with a bound on the share of false ones.

The way is that of `r2d2net.shrinkage.select` on the training rows: probabilities of terms for numbers, a test by a
linear model and a small network under the fit's likelihood for classes. The encoded inputs of a column are one input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from r2d2net.likelihoods import Likelihood, Ordinal
from r2d2net.shrinkage import select
from r2d2net.shrinkage.selection_models import models_for
from r2d2net.tables.settings import Settings
from r2d2net.tables.training_table import TrainingTable


def selected_columns(
    table: TrainingTable,
    likelihood: Likelihood[Any],
    settings: Settings,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Select columns of the table.

    Args:
        table: The table.
        likelihood: The likelihood of the fit.
        settings: The settings of the fit.
        progress: Is given how many inputs are done, of how many.

    Returns:
        "line", "fdr", "method", and "inputs": name, whether "selected", "q_value", the names of its "group" or None,
        and its "p_value" or "lfdr" (the probability of no effect; None where the way has none) of each column, those
        with the most evidence first; for JSON.
    """
    classes = not table.task.is_regression
    outputs = len(table.task.classes) if classes and not isinstance(likelihood, Ordinal) else 1
    y = torch.from_numpy(table.y)
    selection = select(
        None,
        table.x,
        y.long() if classes else y,
        fdr=settings.fdr,
        groups=table.columns.groups,
        refit=models_for(likelihood, outputs, settings.seed),
        seed=settings.seed,
        progress=progress,
    )
    names, number = table.columns.names, selection.group.tolist()
    members = [[name for name, own in zip(names, number, strict=True) if own == group] for group in number]
    evidence = selection.p_value if selection.score is None else selection.score
    order = evidence.round(decimals=6).argsort(stable=True).tolist()  # equal to rounding: in the table's order
    inputs = [
        {
            "name": names[i],
            "selected": bool(selection.selected[i]),
            "p_value": float(selection.p_value[i]) if selection.score is None else None,
            "lfdr": None if selection.score is None else float(selection.score[i]),
            "q_value": float(selection.q_value[i]),
            "group": members[i] if len(members[i]) > 1 else None,
        }
        for i in order
    ]
    return {"line": selection.line, "fdr": settings.fdr, "method": selection.method, "inputs": inputs}


def in_words(selection: dict[str, Any]) -> str:
    """Say which columns were selected.

    Args:
        selection: What `selected_columns` returned.

    >>> in_words({"line": "selected 1 of 2 inputs: ...", "inputs": [{"name": "age", "selected": True}]})
    'selected 1 of 2 inputs: ... (age)'
    """
    names = [entry["name"] for entry in selection["inputs"] if entry["selected"]]
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return selection["line"] + (f" ({', '.join(names[:20])}{more})" if names else "")
