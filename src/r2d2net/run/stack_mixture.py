"""The mixture of a stack: draws of its members in proportion to their weights, stored as one posterior.

Draws of all members are those of the smallest network of the form y = A x + f(x) that has them as special cases
(`stacked_network`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from r2d2net.inference.collection import Collection, CollectionState
from r2d2net.inference.stacked import TRAITS, Stacked
from r2d2net.posterior import Posterior
from r2d2net.priors import R2D2
from r2d2net.run.batches import mix
from r2d2net.run.health import look_at
from r2d2net.run.prepare import Prepared
from r2d2net.run.stack_candidates import Form
from r2d2net.run.stack_fits import Fitted, Search
from r2d2net.run.stacked_network import embed, form_network, model_of
from r2d2net.specification import describe, describe_model, network_text

DRAWS = 400  # of the mixture
MEMORY = 1 << 28  # most bytes of them


def mixture_of(
    search: Search,
    prepared: Prepared,
    request: dict[str, Any],
    members: Sequence[tuple[Fitted, float]],
    entries: list[dict[str, Any]],
    folds: int,
) -> Posterior[Any]:
    """Store draws of the members, in proportion to their weights, as one posterior."""
    forms: set[Form] = {fitted.candidate.form for fitted, _ in members}
    form: Form = next(iter(forms)) if len(forms) == 1 else "both"
    whole = model_of(form, R2D2(), search.network, search.own, search.seed, search.x)
    total = max(len(members), min(DRAWS, MEMORY // (4 * whole.size)))
    generator = torch.Generator(search.x.device).manual_seed(mix(search.seed, -4))
    weights, noises = [], []
    for (fitted, _), count in zip(members, shares([weight for _, weight in members], total), strict=True):
        if count == 0:
            continue
        drawn = fitted.posterior.source.joined(count, generator)
        weights.append(embed(drawn, fitted.candidate.form, fitted.posterior.model, form, whole))
        noises.append(drawn.noise)
    stored = torch.cat(weights)[None]
    noise = {name: torch.cat([each[name] for each in noises])[None] for name in noises[0]}
    state = CollectionState(
        step=torch.zeros((), dtype=torch.int64),
        weights=stored,
        fixed=stored.new_zeros(*stored.shape[:2], 0),
        buffers={},
        noise=noise,
        divergences=torch.zeros(1, dtype=torch.int64),
    )
    source = Collection(whole, state, **TRAITS)
    best = max(members, key=lambda member: member[1])[0].posterior
    settings = {
        **best.settings,
        "algorithm": describe(Stacked(folds=folds)),
        "model": describe_model(whole),
        "network": network_text(whole),
        "candidate": "mixture",
        "seed": search.seed,
        "n": len(search.y),
        "standardize": True,
        "flat_target": prepared.flat_target,
        "data": prepared.digest,
        "chosen": in_words(entries),
        "stack": {"network": form_network(form, search.network), "request": request},
    }
    return Posterior(
        source,
        prepared.units,
        flat_target=prepared.flat_target,
        history=best.history,
        settings=settings,
        candidates=entries,
        health=look_at(source, prepared),
    )


def shares(weights: Sequence[float], total: int) -> list[int]:
    """Divide a number of draws in proportion to weights, the largest remainders first.

    >>> shares([0.5, 0.3, 0.2], 10), shares([0.5, 0.25, 0.25], 2)
    ([5, 3, 2], [1, 1, 0])
    """
    exact = np.asarray(weights, dtype=np.float64) / sum(weights) * total
    counts = np.floor(exact).astype(int)
    for position in np.argsort(counts - exact, kind="stable")[: total - counts.sum()]:
        counts[position] += 1
    return [int(count) for count in counts]


def in_words(entries: Sequence[dict[str, Any]]) -> str:
    """Say which candidates a mixture is made of, the heaviest first.

    >>> in_words([{"name": "linear, R2D2", "weight": 0.25}, {"name": "network, R2D2", "weight": 0.75}])
    'stacking of 2 models: 75% network, R2D2; 25% linear, R2D2'
    """
    ranked = sorted((entry for entry in entries if entry["weight"] > 0), key=lambda entry: -entry["weight"])
    parts = "; ".join(f"{entry['weight']:.0%} {entry['name']}" for entry in ranked)
    return f"stacking of {len(entries)} models: {parts}"
