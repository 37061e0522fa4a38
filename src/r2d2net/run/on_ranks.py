"""What the processes of one run tell each other besides gradients: starts, ends and the scores of validation rows.

Rank 0 reads and writes the files. What it has read all others get, so that they need not see its folder. At the end of
every epoch the ranks compare a checksum of their states: if these differ, an algorithm has used what the others do not
know, and the run ends.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from r2d2net.errors import ParameterError, RankError
from r2d2net.inference import DrawSource, Method
from r2d2net.inference.base import flatten, unflatten
from r2d2net.inference.variational import Variational
from r2d2net.model import Tensors
from r2d2net.posterior import Posterior
from r2d2net.prediction import Prediction
from r2d2net.ranks import Ranks
from r2d2net.run.rank_folders import packed, unpack
from r2d2net.run.resume import difference, finished
from r2d2net.run.validation_rows import ValidationRows

if TYPE_CHECKING:
    from r2d2net.run.train import Plan, Progressing

RECORDS = ("epoch", "batch", "nll", "history", "best_score", "best_epoch")
FEW_ROWS = 256  # validation rows for each rank, below which splitting them would cost more than it saves


def require_same_settings(settings: dict[str, Any], ranks: Ranks) -> None:
    """Raise a `RankError` on all ranks unless they were called with the same arguments and data."""
    for rank, other in enumerate(ranks.gather_json(settings)):
        here = json.loads(json.dumps(settings))
        changed = difference(other, here)
        if changed is not None:
            problem = f"rank {rank} makes another fit than rank {ranks.rank}: {changed}"
            raise RankError(problem, fix="give all processes the same arguments and data, or ranks='alone'")


def draws_of(asked: str | None, method: Method, ranks: Ranks, *, sharded: bool = False) -> str:
    """Return whether processes share the draws of weights of a step, "shared", or make their own, "per-rank".

    Where nobody asks they share them: LeNet learnt no more from a draw for each process, at twice the bytes (see
    `results/benchmarks/rank-draws.json`).

    Args:
        asked: What the user asks for, if anything.
        method: The algorithm.
        ranks: The processes.
        sharded: Whether they divide the state of the run.

    Raises:
        ParameterError: If processes cannot draw weights of their own.
    """
    if asked == "per-rank" and sharded:
        problem = ": no process has the means and deviations of all weights where the state is divided"
        raise ParameterError(problem, argument="rank_draws", value=asked, fix="leave it out")
    if asked == "per-rank" and not isinstance(method, Variational):
        problem = f": {type(method).__name__} does not draw weights in its steps"
        raise ParameterError(problem, argument="rank_draws", value=asked, fix="leave it out")
    return "shared" if asked is None or ranks.size == 1 else asked


def share_run(run: Progressing, generator: torch.Generator, ranks: Ranks) -> None:
    """Let all ranks have rank 0's progress, whole tensors in place, and its generator."""
    records = ranks.share_json([getattr(run, name) for name in RECORDS])
    for name, value in zip(RECORDS, records, strict=True):
        setattr(run, name, value)
    if run.best_epoch >= 0 and run.best is None:
        run.best = unflatten(run.state, {k: torch.empty_like(v) for k, v in flatten(run.state).items()})
    state = generator.get_state()
    ranks.share([*flatten(run.state).values(), *flatten(run.best).values(), state])
    generator.set_state(state)


def finished_on_ranks(folder: Path | None, plan: Plan, ranks: Ranks) -> Posterior[Any] | None:
    """Return on all ranks the posterior that rank 0 finds in its folder, if the run came to its end there."""
    done = ranks.first(lambda: None if folder is None else finished(folder, plan))
    content = ranks.share_bytes(b"" if done is None or folder is None else packed(folder))
    return done if ranks.is_first or not content else read_from(content, plan)


def read_from(content: bytes, plan: Plan) -> Posterior[Any] | None:
    """Return the posterior of a plan from its packed folder."""
    with tempfile.TemporaryDirectory(prefix="r2d2net-") as place:
        unpack(content, Path(place))
        return finished(Path(place), plan)


def shared_posterior(posterior: Posterior[Any], ranks: Ranks) -> Posterior[Any]:
    """Return the posterior with rank 0's tensors and records: other processors may round in other ways."""
    ranks.share(list(flatten(posterior.source.state).values()))
    records = ranks.share_json([posterior.history, posterior.candidates, posterior.health])
    posterior.history, posterior.candidates, posterior.health = records
    return posterior


def require_same_tensors(tensors: Tensors, step: int, ranks: Ranks) -> None:
    """Raise a `RankError` on all ranks unless their tensors of a state have the same bits after a step."""
    sums = torch.stack([_checksum(tensor) for tensor in tensors.values()])
    every = ranks.gathered(sums.unsqueeze(0).to(ranks.device)).cpu()
    differs = (every != every[0]).any(0)
    if bool(differs.any()):
        name = list(tensors)[int(differs.nonzero()[0])]
        problem = f"the processes have come to different values of {name} by step {step}"
        fix = "use like processors and one version of torch, and no randomness outside the generator in the network"
        raise RankError(problem, fix=fix)


def _checksum(tensor: Tensor) -> Tensor:
    """Return a sum over the bits of a tensor, which any other order of the same numbers leaves unchanged."""
    own = tensor.detach().contiguous().reshape(-1)
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[own.element_size()]
    return own.view(whole).sum(dtype=torch.int64).cpu() if own.numel() else torch.zeros((), dtype=torch.int64)


class ValidationOnRanks(ValidationRows):
    """Validation rows of which each rank predicts its part, where there are many.

    Args:
        rows: The validation rows.
        ranks: The processes.
    """

    def __init__(self, rows: ValidationRows, ranks: Ranks) -> None:
        super().__init__(rows.model, rows.prepared)
        self.ranks = ranks

    def predict(self, source: DrawSource[Any], draws: int) -> Prediction:
        if len(self.target) < FEW_ROWS * self.ranks.size:
            return super().predict(source, draws)
        posterior: Posterior[Any] = Posterior(source, self.prepared.units, flat_target=False)
        return posterior.predict(self.x, draws, ranks=self.ranks)
