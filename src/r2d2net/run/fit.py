"""`fit`: from data and a model to a posterior, by one run or several."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from r2d2net.inference import SVGI, Method, method_named
from r2d2net.model import BayesianModel
from r2d2net.posterior import Posterior
from r2d2net.prediction import PredictionT
from r2d2net.run.prepare import prepare
from r2d2net.run.request import Request
from r2d2net.run.several_runs import clear, run_several
from r2d2net.run.train import train


def fit(
    model: BayesianModel[PredictionT],
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
) -> Posterior[PredictionT]:
    """Fit a Bayesian model.

    Args:
        model: The model; it is not changed.
        data: (x, y) as tensors or arrays, a torch Dataset, or a DataLoader.
        algorithm: Inference algorithm: an object of `r2d2net.inference`, such as ``SGLD(lr=0.01)``, or a name, such as
            "sgld", for the default settings. SVGI by default.
        epochs: Passes over the data.
        batch_size: Rows of a step; by default chosen from n. A DataLoader has its own. HMC uses all rows at once.
        seed: Seed of everything random in the run.
        validation: Share of the rows to hold out, or (x, y). The history then has a score for every epoch. In the end
            validation rows also correct the learnt noise variance of a Gaussian likelihood, and so the width of
            intervals (see `run.calibration`); not that of HMC, which draws it.
        patience: Stop when the score has not improved for this number of epochs, and keep the epoch with the best
            score; needs validation. Without patience the last epoch is kept. Not for samplers, whose draws come from
            many epochs.
        score: "nll", the negative log predictive density of a validation row in the user's units; or, for classes,
            "auroc": one minus the area under the ROC curve of each class against the rest, averaged.
        prior: "auto" puts the adaptive R2D2 prior on all Bayesian weight matrices, in place of the model's priors:
            once with and once without its floor, between which validation chooses. Networks that are one Linear layer
            use the floor without a choice.
        restarts: Number of runs from different starts, of which the one with the least validation score is returned;
            the first is the same as a single run (on one thread). Several runs, of restarts or of priors, need
            validation: where none is given a tenth of the rows is held out and not used for training.
            ``posterior.candidates`` has the scores of all; a run that diverges cannot be chosen.
        jobs: Number of runs at a time on a CPU (restarts, members of an ensemble, chains), in processes of one thread
            each; by default the number of cores. 1 runs them one after the other in this process. The result is
            bitwise the same. On a GPU it is always 1.
        n: Number of training rows, for streams that do not know it.
        standardize: Give the network inputs (of tables) and regression targets of mean 0 and variance 1.
        checkpoint_to: Folder for the run's checkpoint, replaced as the run goes on, and for its posterior at the end.
            A checkpoint that is already there is replaced too: to continue from it use ``resume``.
        checkpoint_every: "epoch", or a number of seconds after which the next step is followed by a checkpoint; 0
            writes one after every step. There is also one at the start.
        resume: Folder of an interrupted run with the same model, data and settings, which is continued from its
            checkpoint with bitwise the result of an uninterrupted run. It replaces ``checkpoint_to``: where there is no
            checkpoint yet the run starts, and where it is finished the saved posterior is returned.
        verbose: Show progress on a terminal.

    Returns:
        The posterior, which predicts what the model's likelihood says: `Regression`, `Classification` or `Counts`.

    Raises:
        ParameterError: If an argument is out of range or does not go with the others; nothing is written then.
        DataError: If the data do not fit the model.
        DivergenceError: If training meets a number that is not finite.
        CheckpointError: If ``resume`` holds a run of other data or settings.
    """
    request = Request(
        model=model,
        method=SVGI() if algorithm is None else method_named(algorithm),
        epochs=epochs,
        batch_size=batch_size,
        seed=seed,
        validation=validation,
        patience=patience,
        score=score,
        prior=prior,
        restarts=restarts,
        jobs=jobs,
        n=n,
        standardize=standardize,
        checkpoint_to=checkpoint_to,
        checkpoint_every=checkpoint_every,
        resume=resume,
    ).checked(data)
    prepared = prepare(model, data, request.batch_size, int(seed), request.validation, n, standardize)
    request.method.require_batches(prepared.batches.per_epoch())
    plans, folder, resumes = request.plans(prepared), request.folder, request.resumes
    for plan in plans:
        plan.trainer  # noqa: B018 (built here, so that what does not go together is refused before anything is written)
    if len(plans) > 1:
        return run_several(plans, folder, resume=resumes, jobs=jobs, verbose=verbose)
    if folder is not None and not resumes:
        clear(folder)
    return train(plans[0], folder, resume=resumes, verbose=verbose)
