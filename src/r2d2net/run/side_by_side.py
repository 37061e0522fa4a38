"""Runs of one small perceptron that are trained side by side, in one pass of all of them: see `inference.members`.

Each run has its own seed, order of rows, history, best state and end, as a run by itself has; what they share is the
number of the step. One that stops early or diverges is left as it was, and the others go on. There is one checkpoint
for all, so that after a kill they continue from the same step.

Which runs go together depends on the plans alone, never on the number of processes or cores: batched products round
otherwise than single ones, and a result must not depend on the machine's load.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from r2d2net import checkpoint
from r2d2net.errors import DivergenceError
from r2d2net.inference.base import copied, flatten, part, unflatten
from r2d2net.inference.chain_members import ChainMembers, chains_are_alike
from r2d2net.inference.langevin import Langevin
from r2d2net.inference.langevin_members import LangevinMembers
from r2d2net.inference.linear_gibbs import LinearChains
from r2d2net.inference.linear_members import LinearMembers, linear_are_alike
from r2d2net.inference.mclmc import MicrocanonicalChains
from r2d2net.inference.members import Members, are_alike, members_of
from r2d2net.manifest import tidy
from r2d2net.posterior import INTERRUPTED, Posterior
from r2d2net.run import train as single
from r2d2net.run.batches import TensorBatches, permutation
from r2d2net.run.resume import finished, require_same
from r2d2net.run.train import Plan, Progressing
from r2d2net.run.validation_rows import ValidationRows
from r2d2net.saved_values import require_values
from r2d2net.specification import reading

MOST = 8  # runs of a group: their states and activations stay in a cache
STORE = 1 << 30  # bytes that the stored draws of a group may take: as many as those of one chain by default
FOLDER = "together"  # of a group's checkpoint, with the number of its first run
SideBySide = Members | LangevinMembers | ChainMembers | LinearMembers


def groups_of(plans: Sequence[Plan]) -> list[list[int]]:
    """Sort runs into groups that are trained side by side.

    Args:
        plans: The runs.

    Returns:
        The numbers of the runs of each group, in order of their first ones; a run that goes with no other is a group of
        its own.
    """
    groups: list[list[int]] = []
    for index, plan in enumerate(plans):
        most = _most(plan)
        fitting = (group for group in groups if len(group) < most and _go_together(plans[group[0]], plan))
        group = next(fitting, None)
        if group is None:
            groups.append([index])
        else:
            group.append(index)
    return groups


def _most(plan: Plan) -> int:
    """Return the number of runs like this one whose stored draws a group may hold."""
    store = plan.trainer.store if isinstance(plan.trainer, Langevin) else 0
    return min(MOST, STORE // store) if store else MOST


def _go_together(one: Plan, other: Plan) -> bool:
    mine, theirs = one.prepared.batches, other.prepared.batches
    if not isinstance(mine, TensorBatches) or not isinstance(theirs, TensorBatches) or not _takes(one.trainer, mine.x):
        return False
    shapes = [(b.n, b.size, b.x.shape[1:], b.y.shape[1:], b.y.dtype) for b in (mine, theirs)]
    lengths = [(plan.settings["epochs"], plan.settings["patience"], plan.checkpoint_every) for plan in (one, other)]
    runs = [one.trainer, other.trainer]
    alike = are_alike(runs, mine.size) or chains_are_alike(runs, mine.n) or _are_swept_together(one, other)
    return alike and shapes[0] == shapes[1] and lengths[0] == lengths[1]


def _are_swept_together(one: Plan, other: Plan) -> bool:
    """Tell whether linear chains of two runs are one batch; the first of compared runs is that of a single fit."""
    same_model = one.settings["model"] == other.settings["model"] and not one.compared and not other.compared
    return same_model and linear_are_alike([one.trainer, other.trainer], one.prepared.batches.n)


def _takes(trainer: Any, x: Any) -> bool:
    """Tell whether the passes of a run that are written out, or linear chains, take these inputs."""
    if isinstance(trainer, LinearChains):
        return isinstance(x, Tensor) and x.dim() == 2
    written = (
        trainer.potential.layered if isinstance(trainer, MicrocanonicalChains) else getattr(trainer, "joint", None)
    )
    return written is not None and bool(written.takes(x))


def _members_of(plans: Sequence[Plan], states: Sequence[Any]) -> SideBySide:
    trainers: list[Any] = [plan.trainer for plan in plans]
    if isinstance(trainers[0], LinearChains):
        return LinearMembers(trainers, states)
    if isinstance(trainers[0], MicrocanonicalChains):
        return ChainMembers(trainers, states)
    return members_of(trainers, states)


class Group:
    """Runs side by side, and how far they have come.

    Args:
        plans: The runs, of one group of `groups_of`.
    """

    def __init__(self, plans: Sequence[Plan]) -> None:
        self.plans = list(plans)
        self.generators = [plan.generator() for plan in plans]
        starts = zip(plans, self.generators, strict=True)
        states = [plan.trainer.init(plan.prepared.y, g, plan.prepared.units.y) for plan, g in starts]
        self.runs = [Progressing(state) for state in states]
        self.failures: list[DivergenceError | None] = [None] * len(plans)
        self.epoch, self.batch = 0, 0

    def open(self, k: int) -> bool:
        """Return whether run k goes on: it has not diverged, is not done and has not used up its patience."""
        if self.failures[k] is not None or self.plans[k].trainer.is_done(self.runs[k].state):
            return False
        return not single.is_out_of_patience(self.runs[k], self.plans[k].settings["patience"])

    def show(self, members: SideBySide) -> None:
        """Let the runs have the states of their members."""
        for run, state in zip(self.runs, members.states, strict=True):
            run.state = state

    def store(self, folder: Path) -> None:
        """Write the checkpoint of all runs."""
        tensors: dict[str, Tensor] = {}
        for k, (run, generator) in enumerate(zip(self.runs, self.generators, strict=True)):
            tensors |= {f"{k}/state/{name}": tensor for name, tensor in flatten(run.state).items()}
            if run.best is not None:
                tensors |= {f"{k}/best/{name}": tensor for name, tensor in flatten(run.best).items()}
            tensors[f"{k}/generator"] = generator.get_state()
        records = [
            {
                "epoch": run.epoch,
                "nll": run.nll,
                "history": run.history,
                "best_score": run.best_score,
                "best_epoch": run.best_epoch,
                "failure": None if failure is None else [str(failure.problem), str(failure.fix)],
            }
            for run, failure in zip(self.runs, self.failures, strict=True)
        ]
        header = {"settings": [plan.settings for plan in self.plans], "epoch": self.epoch, "batch": self.batch}
        checkpoint.write(folder / INTERRUPTED, tensors, {**header, "runs": records})

    def restore(self, folder: Path) -> None:
        """Restore all runs from their checkpoint."""
        path = folder / INTERRUPTED
        with reading(path):
            tensors, header = checkpoint.read(path)
            require_same(path, header["settings"], [plan.settings for plan in self.plans])
            self.epoch, self.batch = header["epoch"], header["batch"]
            for k, (run, record) in enumerate(zip(self.runs, header["runs"], strict=True)):
                template = run.state
                if record["failure"] is None:
                    require_values(part(tensors, f"{k}/"), path)
                run.state = unflatten(template, part(tensors, f"{k}/state/"))
                run.epoch, run.nll, run.history = (record[name] for name in ("epoch", "nll", "history"))
                run.batch = self.batch
                run.best_score, run.best_epoch = record["best_score"], record["best_epoch"]
                if run.best_epoch >= 0:
                    run.best = unflatten(template, part(tensors, f"{k}/best/"))
                self.generators[k].set_state(tensors[f"{k}/generator"])
                if record["failure"] is not None:
                    problem, fix = record["failure"]
                    self.failures[k] = DivergenceError(problem, fix=fix)


def train_together(plans: Sequence[Plan], folders: Sequence[Path]) -> list[Posterior[Any] | DivergenceError]:
    """Run the plans of a group to their ends, going on from where their folders say they stand.

    Args:
        plans: The runs.
        folders: Folder of each run, to which its posterior is saved. The checkpoint of the group lies beside them.

    Returns:
        The posterior of each run, or the error by which it ended.
    """
    folder = folders[0].with_name(f"{FOLDER}-{folders[0].name}")
    group = Group(plans)
    if (folder / INTERRUPTED).exists():
        group.restore(folder)
    else:
        group.store(folder)
    tidy(folder)
    members = _members_of(plans, [run.state for run in group.runs])
    group.show(members)
    _loop(group, members, folder)
    return [_end(group, k, own) for k, own in enumerate(folders)]


def _end(group: Group, k: int, folder: Path) -> Posterior[Any] | DivergenceError:
    """Make or read the posterior of a run, or return its failure."""
    failure, plan, run = group.failures[k], group.plans[k], group.runs[k]
    if failure is not None:
        return failure
    done = finished(folder, plan)
    if done is not None:
        return done
    run.state = copied(run.state)
    return single.finish(plan, run, folder)


def _loop(group: Group, members: SideBySide, folder: Path) -> None:
    plans, runs = group.plans, group.runs
    settings, every = plans[0].settings, plans[0].checkpoint_every
    rows = {id(plan.prepared): plan for plan in plans if plan.prepared.validation is not None}
    held = {key: ValidationRows(plan.trainer.model, plan.prepared) for key, plan in rows.items()}
    last = time.monotonic()

    def store_if_due(at_end: bool) -> None:
        nonlocal last
        if at_end if every == "epoch" else time.monotonic() - last >= every:
            for k in opened():
                _look(group, k)
            group.store(folder)
            last = time.monotonic()

    def opened() -> list[int]:
        return [k for k in range(len(plans)) if group.open(k)]

    while group.epoch < settings["epochs"] and (present := opened()):
        for batch in _batches(plans, group.epoch, group.batch):
            losses = members.step(batch, group.generators)
            group.show(members)
            group.batch += 1
            for k in present:
                runs[k].batch = group.batch
                runs[k].nll += losses[k]
                if not math.isfinite(losses[k]):
                    _look(group, k, losses[k])
            present = [k for k in present if group.failures[k] is None]
            if not present:
                break
            if group.batch < settings["batches"]:
                store_if_due(at_end=False)
                present = [k for k in present if group.failures[k] is None]
        for k in present:
            _look(group, k, at_end=True)
        for k in [k for k in present if group.failures[k] is None]:
            single.close_epoch(runs[k], plans[k], held.get(id(plans[k].prepared)), members.temperature)
        group.epoch, group.batch = group.epoch + 1, 0
        store_if_due(at_end=True)


def _look(group: Group, k: int, nll: float = 0.0, *, at_end: bool = False) -> None:
    """Note a run's failure if its state is not finite or, at the end of an epoch, has left all sense."""
    try:
        single.require_finite(group.runs[k], group.plans[k].trainer, nll)
        if at_end:
            single.require_held(group.runs[k], group.plans[k])
    except DivergenceError as error:
        group.failures[k] = error


def _batches(plans: Sequence[Plan], epoch: int, skip: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the batches of all runs in an epoch, each in its own order of rows, (runs, rows, ...)."""
    each = [plan.prepared.batches for plan in plans if isinstance(plan.prepared.batches, TensorBatches)]
    first = each[0]
    orders = torch.stack([permutation(first.n, plan.seed, epoch) for plan in plans]).to(first.y.device)
    share = all(b.x is first.x and b.y is first.y for b in each)
    for k in range(skip, first.per_epoch()):
        rows = orders[:, k * first.size : (k + 1) * first.size]
        if share:
            flat, shape = rows.reshape(-1), rows.shape
            yield (
                first.x.index_select(0, flat).unflatten(0, shape),
                first.y.index_select(0, flat).unflatten(0, shape),
            )
        else:
            pairs = [(b.x.index_select(0, own), b.y.index_select(0, own)) for b, own in zip(each, rows, strict=True)]
            yield torch.stack([x for x, _ in pairs]), torch.stack([y for _, y in pairs])
