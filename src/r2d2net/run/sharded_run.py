"""A run whose state is divided among processes: its start, and its checkpoints, which are those of a whole run.

Rank 0 reads and writes whole states, in its own memory; the others send and receive their parts. So a run goes on with
any number of processes, divided or not.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from r2d2net.errors import Argument, ParameterError, Shown
from r2d2net.inference import Trainer
from r2d2net.inference.base import copied
from r2d2net.inference.sharded import ShardedMeanField
from r2d2net.inference.variational import MeanField
from r2d2net.manifest import tidy
from r2d2net.posterior import INTERRUPTED
from r2d2net.ranks import Ranks, RowSplit
from r2d2net.run.on_ranks import RECORDS
from r2d2net.run.resume import restore, store

if TYPE_CHECKING:
    from r2d2net.run.train import Progressing


def divided_among(trainer: Trainer[Any], split: RowSplit) -> ShardedMeanField:
    """Return the trainer for a state that is divided among processes.

    Args:
        trainer: The trainer of one process.
        split: The processes.

    Raises:
        ParameterError: If the algorithm cannot divide its state.
    """
    if type(trainer) is not MeanField:
        name = Shown(type(getattr(trainer, "settings", trainer)).__name__)
        fix = ("use ", Argument("ranks", "auto"))
        raise ParameterError("cannot divide its state among processes", argument="algorithm", value=name, fix=fix)
    return ShardedMeanField(trainer, split)


class ShardedRun:
    """The files of a run whose state is divided.

    Args:
        trainer: Its trainer.
        ranks: The processes.
        folder: Rank 0's folder, None on the others and where nothing is kept.
        settings: The settings that are saved with the run.
    """

    def __init__(self, trainer: ShardedMeanField, ranks: Ranks, folder: Path | None, settings: dict[str, Any]) -> None:
        self.trainer, self.ranks, self.folder, self.settings = trainer, ranks, folder, settings
        self.keeps: bool = ranks.share_json(folder is not None)

    def begin(self, run: Progressing, generator: torch.Generator, *, resume: bool) -> None:
        """Go on from the checkpoint in the folder, or write the first one; all ranks call this.

        Args:
            run: The run at its start, changed in place.
            generator: Source of its randomness.
            resume: Whether to go on.
        """
        tensors, found = self.trainer.tensors, replace(run, state=None)

        def read() -> None:
            if self.folder is not None and resume and (self.folder / INTERRUPTED).exists():
                template = tensors.fitting(run.state)
                restore(self.folder, found, generator, self.settings, self.ranks.size, template)
            if self.folder is not None:
                tidy(self.folder)

        self.ranks.first(read)
        goes_on, *records = self.ranks.share_json([found.state is not None, *(getattr(found, n) for n in RECORDS)])
        if goes_on:
            for name, value in zip(RECORDS, records, strict=True):
                setattr(run, name, value)
            tensors.place_(run.state, found.state)
            if run.best_epoch >= 0:
                run.best = copied(run.state)
                tensors.place_(run.best, found.best)
        self.ranks.share(list(tensors.common(run.state).values()))
        self.ranks.share_generator(generator, 0)
        if not goes_on and self.keeps:
            self.store(run, generator)

    def agreed(self, due: bool) -> bool:
        """Return on all ranks whether rank 0 says that a checkpoint is due."""
        if not self.keeps:
            return False
        flag = torch.tensor([due], dtype=torch.uint8)
        self.ranks.share_from(flag)
        return bool(flag)

    def store(self, run: Progressing, generator: torch.Generator) -> None:
        """Write the whole run's checkpoint on rank 0; all ranks call this."""
        state = self.trainer.tensors.whole(run.state, everywhere=False)
        best = None if run.best is None else self.trainer.tensors.whole(run.best, everywhere=False)
        if self.folder is not None:
            store(self.folder, replace(run, state=state, best=best), generator, self.settings, self.ranks.size)
