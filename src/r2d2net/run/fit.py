"""`fit`: from data and a model to a posterior, by one run or the best of several."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from torch.utils.data import DataLoader, Dataset

from r2d2net.errors import Argument, ParameterError, Shown, Value, require, require_seed, require_whole
from r2d2net.inference import SVGI, DeepEnsemble, Method, method_named
from r2d2net.model import BayesianModel
from r2d2net.posterior import Posterior
from r2d2net.run.candidates import all_of, best_of, clear, models_to_compare
from r2d2net.run.prepare import prepare
from r2d2net.run.train import Plan, train
from r2d2net.specification import describe, describe_model, network_text

MOST_ROWS = 1 << 62  # a batch of all rows, however many there are
HELD_OUT = 0.1  # share of the rows by which runs are compared where the user names none


def fit(
    model: BayesianModel,
    data: Any,
    algorithm: Method | str | None = None,
    *,
    epochs: int = 100,
    batch_size: int | None = None,
    seed: int = 0,
    validation: float | tuple[Any, Any] | None = None,
    patience: int | None = None,
    score: Literal["nll", "auroc"] = "nll",
    prior: Literal["auto"] | None = None,
    restarts: int = 1,
    jobs: int | None = None,
    n: int | None = None,
    standardize: bool = True,
    checkpoint_to: str | Path | None = None,
    checkpoint_every: Literal["epoch"] | float = 60.0,
    resume: str | Path | None = None,
    verbose: bool = True,
) -> Posterior:
    """Fit a Bayesian model.

    Args:
        model: The model; it is not changed.
        data: (x, y) as tensors or arrays, a torch Dataset, or a DataLoader.
        algorithm: How to infer: one of `r2d2net.inference` with its settings, such as ``SGLD(lr=0.01)``, or its name,
            such as "sgld", for the default ones. SVGI by default.
        epochs: Passes over the data.
        batch_size: Rows of a step; by default chosen from n. A DataLoader brings its own. HMC takes all rows at once.
        seed: Seed of everything random in the run.
        validation: Share of the rows to hold out, or (x, y). The history then has a score for every epoch. In the end
            validation rows also correct the learnt noise variance of a Gaussian likelihood, and so the width of
            intervals (see `run.calibration`); not HMC's, whose draws have their own.
        patience: Stop when the score has not improved for so many epochs, and keep the epoch with the best score;
            needs validation. Without patience the last epoch is kept. Not for samplers, whose draws are of many epochs.
        score: "nll", the negative log predictive density of a validation row in the user's units; or, for classes,
            "auroc": one minus the area under the ROC curve of each class against the rest, averaged.
        prior: "auto" puts the adaptive R2D2 prior on all Bayesian weight matrices, in place of the model's own:
            with and without its floor, and validation chooses. Networks that are one Linear layer take it with the
            floor and need no choice.
        restarts: Runs from so many starts, of which the one with the least validation score is returned; the first is
            the run that a single one would be (on one thread). Several runs, be it of restarts or of priors, need
            validation: where none is given a tenth of the rows is held out, and not trained on.
            ``posterior.candidates`` has the scores of all; a run that diverges is out.
        jobs: Runs at a time on a CPU (restarts, members of an ensemble, chains), in processes of one thread each; by
            default as many as there are cores. 1 has them one after the other in this process. The result is the same
            to the bit. On a GPU it is always 1.
        n: Number of training rows, for streams that cannot tell.
        standardize: Give the network inputs (of tables) and regression targets of mean 0 and variance 1.
        checkpoint_to: Folder for the run's checkpoint, replaced as the run goes on, and for its posterior at the end.
            A checkpoint that is already there is replaced too: to go on from it use ``resume``.
        checkpoint_every: "epoch", or a number of seconds after which the next step is followed by a checkpoint; 0
            writes one after every step. Besides, there is one at the start.
        resume: Folder of an interrupted run with the same model, data and settings: goes on from its checkpoint and
            ends bitwise where the uninterrupted run would. It takes the place of ``checkpoint_to``: where there is no
            checkpoint yet the run starts, and where it is finished the saved posterior is returned.
        verbose: Show progress on a terminal.
    """
    for name, value in (("patience", patience), ("batch_size", batch_size), ("n", n), ("jobs", jobs)):
        if value is not None:
            require_whole(name, value)
    require_whole("epochs", epochs)
    require_whole("restarts", restarts)
    require_seed(seed)
    if not isinstance(model, BayesianModel):
        fix = "wrap the network in r2d2net.BayesianModel"
        raise ParameterError(("is a ", Value(type(model))), argument="model", fix=fix)
    method = SVGI() if algorithm is None else method_named(algorithm)
    known = prior is None or (isinstance(prior, str) and prior == "auto")
    require(known, "prior", prior, "use 'auto', or give a prior of your own to BayesianModel")
    every = 0.0 if checkpoint_every == "epoch" else checkpoint_every
    in_range = isinstance(every, (int, float)) and not isinstance(every, bool) and every >= 0
    require(in_range, "checkpoint_every", checkpoint_every, "use 'epoch' or a number of seconds from 0")
    if resume is not None and checkpoint_to is not None and Path(resume) != Path(checkpoint_to):
        raise ParameterError(
            ("and ", Argument("checkpoint_to", Path(checkpoint_to)), " differ"),
            argument="resume",
            value=Path(resume),
            fix=("give ", Argument("resume"), " alone"),
        )

    require(score in ("nll", "auroc"), "score", score, "use 'nll' or 'auroc'")
    if score == "auroc" and not model.likelihood.has_classes:
        problem = f"ranks classes, and the likelihood is {type(model.likelihood).__name__}"
        raise ParameterError(problem, argument="score", value=score, fix="use 'nll'")

    require(not isinstance(validation, bool), "validation", validation, "use a share between 0 and 1, or (x, y)")
    models = models_to_compare(model, prior)
    compared = len(models) * restarts > 1
    which = Argument("restarts", restarts) if restarts > 1 else Argument("prior", prior)
    if compared and validation is None:
        if isinstance(data, (DataLoader, Dataset)):
            raise ParameterError(
                "needs validation data: a Dataset cannot be split",
                argument=which.name,
                value=which.value,
                fix=("give ", Argument("validation", Shown("(x, y)"))),
            )
        validation = HELD_OUT
    if patience is not None and validation is None:
        raise ParameterError(
            "needs validation data",
            argument="patience",
            value=patience,
            fix=("give ", Argument("validation", 0.1), ", say"),
        )
    if patience is not None and not method.optimizes:
        problem = f": {type(method).__name__} keeps draws of many epochs"
        raise ParameterError(problem, argument="patience", value=patience, fix="leave it out")
    if compared and method.runs > 1:
        problem = f": {type(method).__name__} makes {method.runs} runs of its own"
        raise ParameterError(problem, argument=which.name, value=which.value, fix="leave it out")
    if method.full_batch:
        batch_size = _all_rows(data, batch_size, type(method).__name__)
    prepared = prepare(model, data, batch_size, int(seed), validation, n, standardize)
    from_net = isinstance(method, DeepEnsemble) and method.members > 1 and method.start == "net"
    if from_net and prepared.batches.per_epoch() == 1:
        problem = "with all rows in one batch trains equal members"
        raise ParameterError(problem, argument="start", value="net", fix=("use ", Argument("start", "he")))
    common = {
        "network": network_text(model),
        "epochs": int(epochs),
        "batch_size": None if batch_size is None or method.full_batch else int(batch_size),
        "seed": int(seed),
        "validation": "given" if isinstance(validation, (tuple, list)) else validation,
        "patience": None if patience is None else int(patience),
        "score": score,
        "standardize": bool(standardize),
        "n": prepared.batches.n,
        "batches": prepared.batches.per_epoch(),
        "flat_target": prepared.flat_target,
        "data": prepared.digest,
    }

    def plan(candidate: str, restart: int) -> Plan:
        several = {"prior": prior, "restarts": int(restarts), "candidate": candidate, "restart": restart}
        own = {"algorithm": describe(method), "model": describe_model(models[candidate])}
        settings = {**several, **own, **common}  # a resumed run that differs names the first that does
        return Plan(models[candidate], method, prepared, settings, checkpoint_every, compared, method.runs > 1)

    plans = [plan(candidate, run) for candidate in models for run in range(max(restarts, method.runs))]
    for one in plans:
        one.build()  # refuses what does not go together, before anything is written
    place = checkpoint_to if resume is None else resume
    folder, resumes = None if place is None else Path(place), resume is not None
    if compared:
        return best_of(plans, folder, resume=resumes, jobs=jobs, verbose=verbose)
    if method.runs > 1:
        return all_of(plans, folder, resume=resumes, jobs=jobs, verbose=verbose)
    if folder is not None and not resumes:
        clear(folder)
    return train(plans[0], folder, resume=resumes, verbose=verbose)


def _all_rows(data: Any, batch_size: int | None, name: str) -> int:
    """The batch size of an algorithm that sees all rows in every step."""
    if isinstance(data, (DataLoader, Dataset)):
        needs = f": {name} needs all rows at once"
        raise ParameterError(
            ("is a ", Value(type(data)), needs), argument="data", fix="give (x, y) as tensors or arrays"
        )
    if batch_size is not None:
        problem = f": {name} takes all rows in every step"
        raise ParameterError(problem, argument="batch_size", value=batch_size, fix="leave it out")
    return MOST_ROWS
