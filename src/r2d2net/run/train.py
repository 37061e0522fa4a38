"""One run: from prepared data and settings to a posterior, by steps that can be interrupted anywhere.

The run is a pure function of its plan: the order of the rows depends on (seed, epoch), the draws of Dropout layers on
(seed, step), all other randomness on one generator whose state is in every checkpoint. So a run that is killed at any
moment and resumed ends bitwise where the uninterrupted one ends.
"""

from __future__ import annotations

import math
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch

from r2d2net import devices
from r2d2net.callbacks import Callbacks
from r2d2net.errors import Argument, DivergenceError, Shown
from r2d2net.inference import DrawSource, Info, Method, Trainer
from r2d2net.inference.base import copied, flatten
from r2d2net.likelihoods.log_normal import LogRegression
from r2d2net.manifest import tidy
from r2d2net.metrics import macro_auroc
from r2d2net.model import BayesianModel, Tensors
from r2d2net.network_calls import refusing_checkpointing
from r2d2net.posterior import INTERRUPTED, Posterior
from r2d2net.prediction import Prediction, Regression
from r2d2net.ranks import ALONE, Ranks, RowSplit
from r2d2net.run.batches import mix
from r2d2net.run.calibration import noise_factor
from r2d2net.run.global_generator import lent_generator
from r2d2net.run.health import look_at
from r2d2net.run.more_epochs import with_steps_left
from r2d2net.run.on_ranks import (
    ValidationOnRanks,
    finished_on_ranks,
    require_same_tensors,
    share_run,
    shared_posterior,
)
from r2d2net.run.prepare import Prepared
from r2d2net.run.progress import progress
from r2d2net.run.resume import finished, restore, store
from r2d2net.run.row_weights import with_own_likelihood
from r2d2net.run.sharded_run import ShardedRun, divided_among
from r2d2net.run.split_batches import split_batches
from r2d2net.run.validation_rows import ValidationRows

EPOCH_DRAWS = 20  # weight draws of an epoch's validation score
LOOK_STEPS = 150  # between two looks at the KL, which costs more than a step, where epochs are short
FEW_NUMBERS = 1 << 18  # of a state that is looked at as one vector
FINAL_DRAWS = 100  # of the score by which runs are compared
ADVICE = "use a smaller lr, clip=1.0, or check the data's scale"  # after divergence
RUN_AWAY = (Argument("algorithm", "svgi"), " is safer, or use more epochs or a smaller lr")
STORED = ("kept/", "loo/")  # parts of a state that hold what was computed from the rest of it as the run went on
RESTART = -(1 << 62)  # the seeds of restarts, far from the numbers of epochs and steps


@dataclass(frozen=True)
class Plan:
    """Everything that determines the outcome of a run, and how often it is written to disk."""

    model: BayesianModel[Any]
    method: Method
    prepared: Prepared
    settings: dict[str, Any]  # as they are saved: plain JSON
    checkpoint_every: Literal["epoch"] | float
    compared: bool = False  # among several: its posterior is saved with its score
    is_part: bool = False  # of a posterior made by several runs: the noise is that of the whole
    start: Any = None  # the state from which the run goes on; None for that of the trainer

    @property
    def seed(self) -> int:
        """Seed of this run: the user's for the first run, derived ones for restarts."""
        seed, restart = self.settings["seed"], self.settings["restart"]
        return seed if restart == 0 else mix(seed, RESTART + restart)

    def generator(self) -> torch.Generator:
        """Return the source of the run's randomness, as it is at the start."""
        return torch.Generator(self.model.device).manual_seed(mix(self.seed, -1))

    @cached_property
    def trainer(self) -> Trainer[Any]:
        """The algorithm bound to the model and the size of its data, built once in a process."""
        return self.build()

    def build(self) -> Trainer[Any]:
        """Bind the algorithm to the model and the size of its data; what does not go together is refused."""
        trainer = self.method.build(self.model, **self._sizes())
        if "steps_before" in self.settings:
            return with_steps_left(trainer, self.settings["steps_before"])  # type: ignore[arg-type]
        return trainer

    def with_trainer(self, trainer: Trainer[Any]) -> Plan:
        """Return the same run with a trainer that is built already."""
        changed = replace(self)
        vars(changed)["trainer"] = trainer  # where `cached_property` keeps it
        return changed

    def read(self, saved: Tensors) -> DrawSource[Any]:
        """Return what a finished run of this plan left, from the tensors of a file."""
        return self.method.read(saved, self.model, **self._sizes())

    def _sizes(self) -> dict[str, Any]:
        batches, epochs = self.prepared.batches, self.settings["epochs"]
        return {"n": batches.n, "steps": epochs * batches.per_epoch()}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "trainer"}


@dataclass
class Progressing:
    """The progress of a run between two batches."""

    state: Any
    epoch: int = 0
    batch: int = 0
    nll: Any = 0.0  # sum over the batches of the epoch so far; a tensor where the host would wait for it
    history: list[dict[str, float]] = field(default_factory=list)
    best: Any = None  # the state with the best validation score
    best_score: float = math.inf
    best_epoch: int = -1


def train(
    plan: Plan,
    folder: Path | None,
    *,
    resume: bool,
    verbose: bool,
    callbacks: Callbacks | None = None,
    ranks: Ranks = ALONE,
    draws: str = "shared",
    sharded: bool = False,
) -> Posterior[Any]:
    """Run a plan to its end.

    Args:
        plan: The run.
        folder: Where its checkpoints and its posterior are kept; None keeps none.
        resume: Whether to go on from where the folder says the run stands.
        verbose: Whether to show progress on a terminal.
        callbacks: What is called as the run goes on; None for nothing.
        ranks: The processes among which the rows of the steps are split; all of them call this.
        draws: Whether their draws of weights are "shared", or each is "per-rank".
        sharded: Whether they divide the state of the run.

    Returns:
        The posterior.
    """
    callbacks = Callbacks() if callbacks is None else callbacks
    if ranks.size > 1:
        how: dict[str, Any] = {"resume": resume, "verbose": verbose, "draws": draws, "sharded": sharded}
        return train_on_ranks(plan, folder, ranks, callbacks=callbacks, **how)
    trainer, prepared, settings = plan.trainer, plan.prepared, plan.settings
    if folder is not None and resume:
        done = finished(folder, plan)
        if done is not None:
            return done
    generator = plan.generator()
    first = trainer.init(prepared.y, generator, prepared.units.y)
    run = Progressing(first if plan.start is None else copied(plan.start))
    if folder is not None:
        if resume and (folder / INTERRUPTED).exists():
            restore(folder, run, generator, settings)
        else:
            store(folder, run, generator, settings)
        tidy(folder)
    with refusing_checkpointing(type(plan.method).__name__):
        _loop(plan, run, generator, folder, verbose, callbacks)
    posterior = finish(plan, run, folder)
    callbacks.end(posterior)
    return posterior


def train_on_ranks(
    plan: Plan,
    folder: Path | None,
    ranks: Ranks,
    *,
    resume: bool,
    verbose: bool,
    draws: str,
    sharded: bool,
    callbacks: Callbacks,
) -> Posterior[Any]:
    """Run a plan whose rows are split among processes; rank 0 reads and writes its files."""
    prepared, settings = plan.prepared, plan.settings
    split = RowSplit(ranks, plan.seed, draws == "per-rank")
    own = folder if ranks.is_first else None
    shards: ShardedRun | None = None
    if sharded:
        divided = divided_among(plan.trainer, split)
        plan, shards = plan.with_trainer(divided), ShardedRun(divided, ranks, own, settings)
    else:
        plan.trainer.split_rows(split)
    trainer = plan.trainer
    if ranks.share_json(own is not None and resume):
        done = finished_on_ranks(own, plan, ranks)
        if done is not None:
            return done
    generator = plan.generator()
    first = trainer.init(prepared.y, generator, prepared.units.y)
    run = Progressing(first if plan.start is None else copied(plan.start))

    def begin() -> None:
        if own is not None and resume and (own / INTERRUPTED).exists():
            restore(own, run, generator, settings, ranks.size)
        elif own is not None:
            store(own, run, generator, settings, ranks.size)
        if own is not None:
            tidy(own)

    if shards is None:
        ranks.first(begin)
        share_run(run, generator, ranks)
    else:
        shards.begin(run, generator, resume=resume)
    watching = callbacks if ranks.is_first else Callbacks()
    with refusing_checkpointing(type(plan.method).__name__):
        _loop(plan, run, generator, own, verbose and ranks.is_first, watching, split, shards)
    posterior = shared_posterior(finish(plan, run, own), ranks)
    watching.end(posterior)
    return posterior


def finish(plan: Plan, run: Progressing, folder: Path | None) -> Posterior[Any]:
    """Make the posterior of a run that has come to its end.

    Args:
        plan: The run.
        run: Its progress.
        folder: Where the posterior is saved, in place of the run's checkpoint; None saves nothing.

    Returns:
        The posterior.
    """
    prepared, settings = plan.prepared.plain(), plan.settings
    source = with_own_likelihood(_source(plan.trainer, run.state if run.best is None else run.best))
    if not plan.is_part:
        source = with_noise_of_validation(source, prepared)
    posterior: Posterior[Any] = Posterior(
        source, prepared.units, flat_target=prepared.flat_target, history=run.history, settings=settings
    )
    if plan.compared:
        labels = {"prior": settings["candidate"], "restart": settings["restart"]}
        posterior.candidates = [
            {**labels, "validation": validation_score(source, prepared, FINAL_DRAWS, settings["score"])}
        ]
    if not plan.is_part:
        posterior.health = look_at(source, prepared, run.history if plan.method.optimizes else ())
    if folder is not None:
        posterior.save(folder)
        (folder / INTERRUPTED).unlink(missing_ok=True)
    return posterior


def _source(trainer: Trainer[Any], state: Any) -> DrawSource[Any]:
    """Return what the posterior keeps; without the copy of the state by which `finish` protects it from more steps."""
    return trainer.source(state) if type(trainer).finish is Trainer.finish else trainer.finish(state)


def validation_score(source: DrawSource[Any], prepared: Prepared, draws: int, score: str) -> float:
    """Return the score of the validation rows; less is better.

    Args:
        source: What the networks are drawn from.
        prepared: The data.
        draws: Number of draws.
        score: "nll", the negative log predictive density of a row in the user's units, or "auroc", one minus the area
            under the ROC curve of each class against the rest, averaged.
    """
    return _score(*_predict_validation(source, prepared, draws), score)


def _score(predicted: Prediction, target: torch.Tensor, score: str) -> float:
    if score == "auroc":
        return 1 - macro_auroc(target.reshape(-1).long(), predicted.mean)
    return -float(predicted.log_prob(target).mean())


def with_noise_of_validation(source: DrawSource[Any], prepared: Prepared) -> DrawSource[Any]:
    """Return the source with its learnt noise variance corrected by the validation rows, if there are any.

    A likelihood that learns one noise variance predicts a `Regression` of y or of its logarithm; what others learn is
    left as it is.
    """
    if prepared.validation is None or not source.model.likelihood.learns_noise or source.draws_noise:
        return source
    predicted, target = _predict_validation(source, prepared, FINAL_DRAWS)
    if isinstance(predicted, LogRegression):
        predicted, target = predicted.log, target.log()  # the same but for a term without the variance
    if not isinstance(predicted, Regression):
        return source
    return source.with_noise_factor(noise_factor(predicted, target))


def _predict_validation(source: DrawSource[Any], prepared: Prepared, draws: int) -> tuple[Prediction, torch.Tensor]:
    held_out = ValidationRows(source.model, prepared)
    return held_out.predict(source, draws), held_out.target


def _loop(
    plan: Plan,
    run: Progressing,
    generator: torch.Generator,
    folder: Path | None,
    verbose: bool,
    callbacks: Callbacks,
    split: RowSplit | None = None,
    shards: ShardedRun | None = None,
) -> None:
    settings, every, trainer = plan.settings, plan.checkpoint_every, plan.trainer
    size = 1 if split is None else split.ranks.size
    epochs, patience, device = settings["epochs"], settings["patience"], plan.model.device
    batches = plan.prepared.batches.with_seed(plan.seed)
    held_out = None if plan.prepared.validation is None else ValidationRows(trainer.model, plan.prepared)
    if split is not None:
        batches = split_batches(batches, split.ranks)
        held_out = None if held_out is None else ValidationOnRanks(held_out, split.ranks)
    seeds = split if split is not None and trainer.draws_for_rows else None
    last = time.monotonic()

    def store_if_due(at_end: bool) -> None:
        nonlocal last
        due = folder is not None and (at_end if every == "epoch" else time.monotonic() - last >= every)
        if due if shards is None else shards.agreed(due):
            run.nll = float(run.nll)
            require_finite(run, trainer, run.nll)
            if shards is not None:
                shards.store(run, generator)
            elif folder is not None:
                store(folder, run, generator, settings, size)
            last = time.monotonic()

    shown = verbose and sys.stderr.isatty()
    with progress(epochs, run.epoch) if shown else nullcontext(lambda entry: None) as report:
        while run.epoch < epochs:
            if is_out_of_patience(run, patience):
                break
            if trainer.is_done(run.state):
                break
            info: Info | None = None
            for batch in batches.epoch(run.epoch, run.batch):
                if trainer.draws_globally(batch):
                    step = -3 - int(run.state.step)
                    with lent_generator(mix(plan.seed, step) if seeds is None else seeds.own_seed(step), device):
                        run.state, info = trainer.step(run.state, batch, generator)
                else:
                    run.state, info = trainer.step(run.state, batch, generator)
                run.batch += 1
                if devices.waits(device):  # looked at when the epoch ends or a checkpoint is due
                    run.nll = run.nll + info.nll.detach()
                else:
                    nll = float(info.nll)
                    run.nll += nll
                    if not math.isfinite(nll):
                        require_finite(run, trainer, nll)
                if callbacks:
                    callbacks.step(int(run.state.step), info)
                if run.batch < settings["batches"]:
                    store_if_due(at_end=False)
            if devices.waits(device):
                run.nll, is_finite = read_together(run.nll, run.state)
                if not is_finite:
                    require_finite(run, trainer, run.nll)
            else:
                require_finite(run, trainer)
            require_held(run, plan)
            if split is not None:
                common = flatten(run.state) if shards is None else shards.trainer.tensors.common(run.state)
                require_same_tensors(common, int(run.state.step), split.ranks)
            close_epoch(run, plan, held_out, None if info is None else info.temperature)
            report(run.history[-1])
            callbacks.epoch(run.history)
            store_if_due(at_end=True)


def read_together(nll: Any, state: Any) -> tuple[float, bool]:
    """Read the sum of losses and whether a state is finite from an accelerator, waiting for it once.

    Args:
        nll: Sum of the losses.
        state: The state.

    Returns:
        The sum, and whether it and the state are finite; buffers may be infinite.
    """
    flags = [torch.isfinite(torch.as_tensor(nll))]
    for name, tensor in flatten(state).items():
        if tensor.is_floating_point() and not name.startswith(STORED):
            own = ~tensor.isnan() if "buffers" in name.split("/") else tensor.isfinite()
            flags.append(own.all())
    device = nll.device if isinstance(nll, torch.Tensor) else flags[-1].device
    is_finite = torch.stack([flag.to(device) for flag in flags]).all()
    total = torch.as_tensor(nll, device=device)
    read = float(torch.where(is_finite, total, math.nan))
    return (read, True) if math.isfinite(read) else (float(total), False)


def is_out_of_patience(run: Progressing, patience: int | None) -> bool:
    """Return whether the validation score has not improved for ``patience`` epochs."""
    return patience is not None and run.best_epoch >= 0 and run.epoch - 1 - run.best_epoch >= patience


def close_epoch(run: Progressing, plan: Plan, held_out: ValidationRows | None, temperature: float | None) -> None:
    """Add an epoch to the history, and keep its state if it is the best so far and the run stops early.

    Args:
        run: The progress of the run, after the epoch's last step.
        plan: The run.
        held_out: The validation rows, if there are any.
        temperature: Weight of the prior or the KL in the epoch's last step; None if there was none.
    """
    trainer, prepared, settings = plan.trainer, plan.prepared, plan.settings
    looks = (run.epoch + 1) % math.ceil(LOOK_STEPS / settings["batches"]) == 0 or run.epoch + 1 == settings["epochs"]
    entry = {"epoch": float(run.epoch + 1), "nll": run.nll / max(1, run.batch)}
    kl = trainer.kl(run.state) if looks else None
    if kl is not None:
        entry["kl"] = float(kl)
    if temperature is not None:
        entry["temperature"] = temperature
    variance = run.state.noise.get("variance")
    if variance is not None:
        entry["noise"] = float((variance.sqrt() * prepared.units.y.scale).mean())
    entry.update(trainer.measures(run.state))
    if held_out is not None:
        predicted = held_out.predict(trainer.source(run.state), EPOCH_DRAWS)
        entry["validation"] = _score(predicted, held_out.target, settings["score"])
        if settings["patience"] is not None and entry["validation"] < run.best_score:
            run.best_score, run.best_epoch = entry["validation"], run.epoch
            run.best = copied(run.state)
    run.history.append(entry)
    run.epoch, run.batch, run.nll = run.epoch + 1, 0, 0.0


def require_held(run: Progressing, plan: Plan) -> None:
    """Raise a `DivergenceError` if the algorithm says that its run has left all sense."""
    sign = plan.trainer.run_away(run.state)
    if sign is not None:
        name = Shown(type(plan.method).__name__)
        problem = f"ran away by step {int(run.state.step)}: {sign}"
        raise DivergenceError(problem, argument="algorithm", value=name, fix=RUN_AWAY)


def require_finite(run: Progressing, trainer: Trainer[Any], nll: float = 0.0) -> None:
    """Raise a `DivergenceError` if the state is not finite, before it can replace a good checkpoint."""
    # draws were looked at as they came
    looked_at = {
        name: tensor
        for name, tensor in flatten(run.state).items()
        if tensor.is_floating_point() and not name.startswith(STORED)
    }
    if math.isfinite(nll) and _are_small_and_finite(list(looked_at.values())):
        return
    bad = {
        name
        for name, tensor in looked_at.items()
        # a network's own buffers may hold infinities, such as attention masks
        if not bool((~tensor.isnan() if "buffers" in name.split("/") else tensor.isfinite()).all())
    }
    if math.isfinite(nll) and not bad:
        return
    network = trainer.present(run.state)
    flat = ((trainer.model.bayesian, network.weights[0]), (trainer.model.fixed, network.fixed[0]))
    names = [slot.name for slots, v in flat for slot in slots if not bool(torch.isfinite(slot.of(v)).all())]
    what = "training diverged" if math.isfinite(nll) else f"the loss became {nll}"
    where = f"parameter {names[0]!r} is not finite" if names else "all parameters are finite"
    if bad and not names:
        where = f"{min(bad)} of the algorithm's state is not finite"
    raise DivergenceError(f"{what} at step {int(run.state.step)}: {where}", fix=ADVICE)


def _are_small_and_finite(tensors: list[torch.Tensor]) -> bool:
    """Return whether tensors are few numbers, looked at in one operation, and all finite."""
    if sum(tensor.numel() for tensor in tensors) > FEW_NUMBERS:
        return False
    return bool(torch.isfinite(torch.cat([tensor.reshape(-1) for tensor in tensors])).all())
