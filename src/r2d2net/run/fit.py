"""`fit`: from data and a model to a posterior, by one run or several; its arguments are checked in `Request`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from torch.utils.data import DataLoader, Dataset

from r2d2net.callbacks import Callback, Callbacks, History
from r2d2net.errors import Argument, ParameterError, Shown, Text, Value, require, require_seed, require_whole
from r2d2net.folder_lock import writing
from r2d2net.inference import SVGI, Method, method_named
from r2d2net.inference.sharded import drawing_weights
from r2d2net.inference.variational import Variational
from r2d2net.likelihoods.masked import Masked, masked_for
from r2d2net.likelihoods.weighted import Weighted
from r2d2net.model import BayesianModel
from r2d2net.posterior import Posterior
from r2d2net.prediction import PredictionT
from r2d2net.priors import R2D2
from r2d2net.ranks import ALONE, is_world, ranks_of_world
from r2d2net.run.carrying_on import next_posterior
from r2d2net.run.choice import choose, epochs_for
from r2d2net.run.graph_rows import in_context, rows_are_nodes
from r2d2net.run.health import warn_of
from r2d2net.run.more_epochs import digest_of, method_of, state_of, steps_before
from r2d2net.run.on_ranks import draws_of, require_same_settings
from r2d2net.run.prepare import Prepared, prepare
from r2d2net.run.ray_runs import require_cluster
from r2d2net.run.row_weights import require_missing, require_weighing
from r2d2net.run.several_runs import clear, run_several
from r2d2net.run.split_batches import for_rank, with_shares
from r2d2net.run.start_notice import warn_of_start
from r2d2net.run.train import Plan, train
from r2d2net.specification import describe, describe_model, network_text

MOST_ROWS = 1 << 62  # a batch of all rows, however many there are
ROWS_GIVEN = Argument("validation", Shown("(x, y)"))
STEPS_OF_A_GRAPH = 1000  # of runs whose steps see a whole graph, by default
HELD_OUT = 0.1  # share of the rows by which runs are compared where the user names none


def fit(
    model: BayesianModel[PredictionT],
    data: Any,
    algorithm: Method | str | None = None,
    *,
    epochs: int | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    validation: float | tuple[Any, Any] | None = None,
    patience: int | None = None,
    score: Literal["nll", "auroc"] = "nll",
    prior: Literal["auto"] | Posterior[PredictionT] | None = None,
    start: Posterior[PredictionT] | None = None,
    restarts: int = 1,
    combine: bool = False,
    jobs: int | None = None,
    n: int | None = None,
    weights: Any = None,
    standardize: bool = True,
    checkpoint_to: str | Path | None = None,
    checkpoint_every: Literal["epoch"] | float = 60.0,
    resume: str | Path | None = None,
    callbacks: Sequence[Callback | Callable[[History], Any]] = (),
    verbose: bool = True,
    ranks: Literal["auto", "alone", "sharded"] = "auto",
    rank_draws: Literal["shared", "per-rank"] | None = None,
    cluster: Literal["ray"] | None = None,
) -> Posterior[PredictionT]:
    """Fit a Bayesian model.

    Under torchrun all processes make this call, and are one fit: see "Several machines" in the documentation.

    Args:
        model: The model; it is not changed.
        data: (x, y) as tensors or arrays, a torch Dataset, or a DataLoader. Numbers in y may be NaN, where there is no
            target: of rows, or of some outputs of a row. For a network of graphs ((graph, nodes), y)
            or (graphs, y) (see `r2d2net.graphs`), or the same of torch_geometric: a Data with a train_mask, or a list,
            Dataset or DataLoader of graphs with targets.
        algorithm: Inference algorithm: an object of `r2d2net.inference`, such as ``SGLD(lr=0.01)``, or a name, such as
            "sgld", for the default settings. SVGI by default; where rows are nodes of a graph, and no ``epochs`` are
            given, "auto". "auto" chooses: LinearGibbs for one linear layer, LinearFirst for a linear path on a wide
            table, MCLMC for small networks and tables, else, and where several processes share the steps, SVGI (see
            `run.choice`); ``posterior.settings["chosen"]`` says why.
        epochs: Passes over the data; for algorithms that see all rows at once, what they call an epoch. By default 100,
            or what suits the algorithm: HMC 300, LinearGibbs up to 1,000, MCLMC 25 to 45; 1,000 where rows are nodes of
            a graph, of which a step sees all. Where "auto" chose it SVGI takes about 1,000 steps, and LinearGibbs fewer
            sweeps for several classes of a wide table.
        batch_size: Rows of a step; by default chosen from n. A DataLoader has its own. HMC uses all rows at once.
        seed: Seed of everything random in the run.
        validation: Share of the rows to hold out, or (x, y). The history then has a score for every epoch. In the end
            validation rows also correct the learnt noise variance of a Gaussian likelihood, and so the width of
            intervals (see `run.calibration`); not that of HMC, MCLMC and LinearGibbs, which draw it.
        patience: Stop when the score has not improved for this number of epochs, and keep the epoch with the best
            score; needs validation. Without patience the last epoch is kept. Not for samplers, whose draws come from
            many epochs.
        score: "nll", the negative log predictive density of a validation row in the user's units; or, for classes,
            "auroc": one minus the area under the ROC curve of each class against the rest, averaged.
        prior: "auto" puts the adaptive R2D2 prior on all Bayesian weight matrices, in place of the model's priors:
            once with and once without its floor, between which validation chooses. Networks that are one Linear layer
            use the floor without a choice. A posterior of SVGI is the prior of new rows: the result is the posterior of
            its rows and these, ``data`` being (x, y); priors of the model go on to be learnt (`run.carrying_on`).
        start: Posterior of a mean-field algorithm and these data, from which the run goes on for more epochs, by the
            smaller steps of the end of a run of all epochs.
        restarts: Number of runs from different starts, of which the one with the least validation score is returned;
            the first is the same as a single run (on one thread; up to rounding where runs of a small perceptron are
            trained side by side, see `run.side_by_side`). Several runs, of restarts or of priors, need
            validation: where none is given a tenth of the rows is held out and not used for training.
            ``posterior.candidates`` has the scores of all; a run that diverges cannot be chosen.
        combine: Keep all ``restarts`` as one posterior, an equal mixture, in place of the best; nothing is held out.
            For SVGI, CAVI, SVI, MFVI and Radial; of finished fits `combine` makes the same.
        jobs: Number of runs at a time on a CPU (restarts, members of an ensemble, chains), in processes of one thread
            each; by default the number of cores. 1 runs them one after the other in this process. The result is
            bitwise the same. On a GPU it is always 1. Up to eight runs of a small perceptron (Linear layers and
            activations, by SVGI, CAVI, SVI, MFVI, Radial, MAP, DeepEnsemble, SGLD or SGHMC) are trained side by side in
            one pass and count as one.
        n: Number of training rows, for streams that do not know it.
        weights: How much each row counts, (n,), positive numbers: a row of weight 2 counts as two rows that are alike,
            so that their sum stands for the number of rows. Not for streams, nor for EDL, DPN, LinearFirst, and
            LinearGibbs of classes.
        standardize: Give the network inputs (of tables) and regression targets of mean 0 and variance 1. Those of a
            Dataset or DataLoader are measured in a pass of their own before training, in memory for one batch.
        checkpoint_to: Folder for the run's checkpoint, replaced as the run goes on, and for its posterior at the end.
            A checkpoint that is already there is replaced too: to continue from it use ``resume``.
        checkpoint_every: "epoch", or a number of seconds after which the next step is followed by a checkpoint; 0
            writes one after every step. There is also one at the start.
        resume: Folder of an interrupted run with the same model, data and settings, which is continued from its
            checkpoint with bitwise the result of an uninterrupted run. It replaces ``checkpoint_to``: where there is no
            checkpoint yet the run starts, and where it is finished the saved posterior is returned.
        callbacks: Functions that are called with the history after every epoch, or objects of `rn.callbacks`, which see
            steps and the posterior too: `CSVLogger`, `TensorBoardLogger`. For a single run.
        verbose: Show progress on a terminal.
        ranks: "auto" splits the rows of every step, or several runs, among the processes of a torch.distributed group:
            one that is open, or that torchrun has set out. "alone" makes a fit of its own in each process. "sharded" is
            "auto" with the state of the run divided among the processes too, for networks too large for one of them:
            SVGI, CAVI, SVI, MFVI and Radial, by draws of weights.
        rank_draws: Whether processes draw the weights of a step "shared" or "per-rank": with the latter k processes are
            k draws, and send twice as much. For algorithms that draw weights; "shared" by default.
        cluster: "ray" makes several runs (restarts, candidates, members, chains) as tasks of a Ray cluster, with the
            same bits: the one that the script is connected to or that RAY_ADDRESS names, else one of this machine.
            ``jobs`` is then the number of tasks at a time.

    Returns:
        The posterior, which predicts what the model's likelihood says: `Regression`, `Classification` or `Counts`. Its
        ``health`` tells how it does on its own training rows; a fit that is worse there than a constant, or that is a
        constant where there is more to find, and chains far from mixed also give a `r2d2net.errors.FitWarning`.
        ``health["line"]`` says it in one line, which a terminal shows.

    Raises:
        ParameterError: If an argument is out of range or does not go with the others; nothing is written then.
        DataError: If the data do not fit the model.
        DivergenceError: If training meets a number that is not finite, or a sampler runs away from its target.
        CheckpointError: If ``resume`` holds a run of other data or settings.
        RankError: If one of several processes is gone, has failed, or makes another fit.
    """
    require(ranks in ("auto", "alone", "sharded"), "ranks", ranks, "use 'auto', 'alone' or 'sharded'")
    require(cluster in (None, "ray"), "cluster", cluster, "use 'ray' or None")
    require(rank_draws in (None, "shared", "per-rank"), "rank_draws", rank_draws, "use 'shared' or 'per-rank'")
    model, data, validation, batch_size = in_context(model, data, validation, batch_size, standardize)
    automatic = isinstance(algorithm, str) and algorithm.lower() == "auto"
    if algorithm is None and epochs is None and rows_are_nodes(model):
        automatic = True
    watching = Callbacks(callbacks)
    if isinstance(prior, Posterior):
        others = {
            "algorithm": algorithm,
            "n": n,
            "patience": patience,
            "resume": resume,
            "start": start,
            "validation": validation,
            "weights": weights,
            "checkpoint_to": checkpoint_to,
            "restarts": None if restarts == 1 else restarts,
            "ranks": "sharded" if ranks == "sharded" else None,
            "cluster": cluster,
            "combine": combine or None,
        }
        own = {"epochs": epochs, "batch_size": batch_size, "seed": seed, "callbacks": watching, "verbose": verbose}
        return next_posterior(prior, model, data, others, **own)
    if start is not None:
        algorithm = method_of(start, model, None if algorithm is None else method_named(algorithm))
    request = Request(
        model=model,
        method=SVGI() if algorithm is None or automatic else method_named(algorithm),
        automatic=automatic,
        epochs=epochs,
        batch_size=batch_size,
        seed=seed,
        validation=validation,
        patience=patience,
        score=score,
        prior=prior,
        restarts=restarts,
        combine=combine,
        jobs=jobs,
        n=n,
        standardize=standardize,
        checkpoint_to=checkpoint_to,
        checkpoint_every=checkpoint_every,
        resume=resume,
        weighs=weights is not None,
        shares=ranks != "alone" and is_world(),
    ).checked(data)
    sharded = ranks == "sharded"
    if sharded:
        request = replace(request, method=drawing_weights(request.method))
    group = ALONE if ranks == "alone" else ranks_of_world(model.device)
    verbose = verbose and group.is_first
    with group.together():
        data = for_rank(data, group)
        prepared = prepare(
            model, data, request.batch_size, int(seed), request.validation, n, standardize, weights, group
        )
        prepared = replace(prepared, batches=with_shares(prepared.batches, group))
        model = model if prepared.model is None else prepared.model
        request = replace(request, model=model).with_epochs(prepared.batches.n, model)
        if group.is_first:
            warn_of_start(request.method, model, prepared.units)
        if prepared.masked:
            require_missing(request.method)
        request.method.require_batches(prepared.batches.per_epoch())
        if request.chosen is not None and verbose and sys.stderr.isatty():
            print(f"algorithm {request.chosen}", file=sys.stderr)
        plans, folder, resumes = request.plans(prepared), request.folder, request.resumes
        if start is not None:
            if len(plans) > 1:
                fix = "give it to a fit of one run"
                raise ParameterError(f": these are {len(plans)} runs", argument="start", fix=fix)
            first = state_of(start, prepared)
            settings = {**plans[0].settings, "start": digest_of(first), "steps_before": steps_before(start)}
            plans = [replace(plans[0], start=first, settings=settings)]
        if watching and len(plans) > 1:
            fix = "give them to a fit of one run"
            raise ParameterError(f": these are {len(plans)} runs", argument="callbacks", fix=fix)
        for plan in plans:
            plan.trainer  # noqa: B018 (built here, so that what does not go together is refused before all writing)
        if sharded and (len(plans) > 1 or start is not None):
            problem, other = ": a state is divided in a single run from its own start", Argument("ranks", "auto")
            raise ParameterError(problem, argument="ranks", value="sharded", fix=("use ", other))
        if cluster is not None:
            require_cluster(cluster, model.device.type, len(plans), group.size)
        draws = draws_of(rank_draws, request.method, group, sharded=sharded)
        if group.size > 1:
            require_same_settings({**plans[0].settings, "runs": len(plans), "rank_draws": draws}, group)
        with nullcontext() if folder is None or not group.is_first else writing(folder):
            if len(plans) > 1:
                how: dict[str, Any] = {"jobs": jobs, "ranks": group, "cluster": cluster}
                posterior = run_several(plans, folder, resume=resumes, verbose=verbose, **how)
            else:
                if folder is not None and not resumes and group.is_first:
                    clear(folder)
                posterior = train(
                    plans[0],
                    folder,
                    resume=resumes,
                    verbose=verbose,
                    callbacks=watching,
                    ranks=group,
                    draws=draws,
                    sharded=sharded,
                )
    if group.is_first:
        warn_of(posterior.health, type(request.method).__name__)
    if verbose and sys.stderr.isatty() and "line" in posterior.health:  # runs of earlier versions have none
        print(posterior.health["line"], file=sys.stderr)
    return posterior


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments of `fit`, checked together; by default one run, which is written nowhere."""

    model: BayesianModel[Any]
    method: Method
    epochs: int | None
    seed: int
    automatic: bool = False
    batch_size: int | None = None
    validation: float | tuple[Any, Any] | None = None
    patience: int | None = None
    score: Literal["nll", "auroc"] = "nll"
    prior: Literal["auto"] | None = None
    restarts: int = 1
    combine: bool = False
    jobs: int | None = 1
    n: int | None = None
    standardize: bool = True
    checkpoint_to: str | Path | None = None
    checkpoint_every: Literal["epoch"] | float = 3600.0
    resume: str | Path | None = None
    chosen: str | None = None  # why "auto" chose the algorithm
    weighs: bool = False  # whether rows have weights
    shares: bool = False  # whether several processes make the fit

    @property
    def folder(self) -> Path | None:
        """The folder of the run; None if nothing is written."""
        place = self.checkpoint_to if self.resume is None else self.resume
        return None if place is None else Path(place)

    @property
    def compares(self) -> bool:
        """Whether validation chooses among several runs."""
        return len(self.models()) * self.restarts > 1 and not self.combine

    @property
    def resumes(self) -> bool:
        """Whether the run continues from the checkpoint in its folder."""
        return self.resume is not None

    def models(self) -> dict[str, BayesianModel[Any]]:
        """Return the models among which validation chooses, by the name of their prior; a linear network has one."""
        if self.prior is None:
            return {"given": self.model}
        models = {"adaptive": self.model.with_prior(R2D2.adaptive())}
        if not self.model.is_linear:
            models["adaptive-without-floor"] = self.model.with_prior(R2D2.adaptive(floor=False))
        return models

    def checked(self, data: Any) -> Request:
        """Return the request with what depends on other arguments filled in.

        Args:
            data: The training data.

        Raises:
            ParameterError: If an argument is out of range or does not go with the others.
        """
        self._check_each()
        if self.automatic:
            model = self.model
            if self.weighs:
                model = model.with_likelihood(Weighted(model.likelihood))
            elif isinstance(data, (tuple, list)) and len(data) == 2:
                model = model.with_likelihood(masked_for(model.likelihood, data[1]))
            asked: dict[str, Any] = {"batch_size": self.batch_size, "patience": self.patience, "shares": self.shares}
            choice = choose(model, data, **asked)
            return replace(self, method=choice.method, automatic=False, chosen=choice.reason).checked(data)
        if self.weighs:
            require_weighing(self.method)
        fix: Text
        method, validation, batch_size = self.method, self.validation, self.batch_size
        streams = isinstance(data, (DataLoader, Dataset))
        compared = self.compares
        cause = Argument("restarts", self.restarts) if self.restarts > 1 else Argument("prior", self.prior)
        if compared and validation is None:
            if streams:
                problem, fix = "needs validation data: a Dataset cannot be split", ("give ", ROWS_GIVEN)
                raise ParameterError(problem, argument=cause.name, value=cause.value, fix=fix)
            validation = HELD_OUT
        if self.patience is not None and validation is None:
            fix = ("give ", Argument("validation", HELD_OUT), ", say")
            raise ParameterError("needs validation data", argument="patience", value=self.patience, fix=fix)
        name = type(method).__name__
        if self.patience is not None and not method.optimizes:
            problem = f": {name} keeps draws of many epochs"
            raise ParameterError(problem, argument="patience", value=self.patience, fix="leave it out")
        if (compared or self.combine) and method.runs > 1:
            problem = f": {name} makes {method.runs} runs of its own"
            raise ParameterError(problem, argument=cause.name, value=cause.value, fix="leave it out")
        if self.combine:
            self._check_combine()
        if method.full_batch:
            if streams:
                stream = ("is a ", Value(type(data)), f": {name} needs all rows at once")
                raise ParameterError(stream, argument="data", fix="give (x, y) as tensors or arrays")
            if batch_size is not None:
                problem = f": {name} takes all rows in every step"
                raise ParameterError(problem, argument="batch_size", value=batch_size, fix="leave it out")
            batch_size = MOST_ROWS
        return replace(self, validation=validation, batch_size=batch_size)

    def with_epochs(self, n: int, model: BayesianModel[Any]) -> Request:
        """Return the request with a number of epochs, where the user names none.

        Args:
            n: Number of training rows.
            model: The model.
        """
        if self.epochs is not None:
            return self
        if self.chosen is None:
            epochs = self.method.default_epochs(n)
            whole = model.context is not None and model.context.whole_pass and self.method.optimizes
            return replace(self, epochs=max(epochs, STEPS_OF_A_GRAPH) if whole else epochs)
        return replace(self, epochs=epochs_for(n, self.batch_size, self.method, model))

    def _check_combine(self) -> None:
        """Check what goes with a mixture of several runs."""
        problem: Text = ""
        fix: Text = "leave one of them out"
        if self.restarts == 1:
            problem, fix = ": there is one run", ("give ", Argument("restarts", 4), ", say")
        elif self.prior is not None:
            problem = ("and ", Argument("prior", self.prior), ", which chooses among runs")
        elif not isinstance(self.method, Variational):
            problem = f": {type(self.method).__name__} has no mean-field posteriors to mix"
            fix = "use SVGI, CAVI, SVI, MFVI or Radial"
        if problem:
            raise ParameterError(problem, argument="combine", value=True, fix=fix)

    def _check_each(self) -> None:
        """Check each argument by itself."""
        problem: Text
        for name in ("patience", "batch_size", "n", "jobs"):
            if getattr(self, name) is not None:
                require_whole(name, getattr(self, name))
        if self.epochs is not None:
            require_whole("epochs", self.epochs)
        require_whole("restarts", self.restarts)
        require(isinstance(self.combine, bool), "combine", self.combine, "use True or False")
        require_seed(self.seed)
        if not isinstance(self.model, BayesianModel):
            problem = ("is a ", Value(type(self.model)))
            raise ParameterError(problem, argument="model", fix="wrap the network in r2d2net.BayesianModel")
        known = self.prior is None or (isinstance(self.prior, str) and self.prior == "auto")
        require(known, "prior", self.prior, "use 'auto', or give a prior of your own to BayesianModel")
        every = 0.0 if self.checkpoint_every == "epoch" else self.checkpoint_every
        in_range = isinstance(every, (int, float)) and not isinstance(every, bool) and every >= 0
        require(in_range, "checkpoint_every", self.checkpoint_every, "use 'epoch' or a number of seconds from 0")
        if self.resume is not None and self.checkpoint_to is not None and Path(self.resume) != Path(self.checkpoint_to):
            problem = ("and ", Argument("checkpoint_to", Path(self.checkpoint_to)), " differ")
            fix = ("give ", Argument("resume"), " alone")
            raise ParameterError(problem, argument="resume", value=Path(self.resume), fix=fix)
        require(self.score in ("nll", "auroc"), "score", self.score, "use 'nll' or 'auroc'")
        if self.score == "auroc" and not self.model.likelihood.has_classes:
            problem = f"ranks classes, and the likelihood is {type(self.model.likelihood).__name__}"
            raise ParameterError(problem, argument="score", value=self.score, fix="use 'nll'")
        is_share = not isinstance(self.validation, bool)
        require(is_share, "validation", self.validation, "use a share between 0 and 1, or (x, y)")

    def plans(self, prepared: Prepared) -> list[Plan]:
        """Return the runs: one, or one for each candidate and restart, or one for each member or chain."""
        models = self.models()
        methods = {name: self.method.settled(model) for name, model in models.items()}
        method = self.method
        assert self.epochs is not None
        common = {
            **({"combine": True} if self.combine else {}),
            **({} if self.chosen is None else {"chosen": self.chosen}),
            "network": network_text(self.model),
            "epochs": int(self.epochs),
            "batch_size": None if self.batch_size is None or method.full_batch else int(self.batch_size),
            "seed": int(self.seed),
            "validation": "given" if isinstance(self.validation, (tuple, list)) else self.validation,
            "patience": None if self.patience is None else int(self.patience),
            "score": self.score,
            "standardize": bool(self.standardize),
            "n": prepared.batches.n,
            "batches": prepared.batches.per_epoch(),
            "flat_target": prepared.flat_target,
            "data": prepared.digest,
            **({"weights": "given"} if self.weighs else {}),
        }

        def plan(candidate: str, restart: int) -> Plan:
            several = {"prior": self.prior, "restarts": int(self.restarts), "candidate": candidate, "restart": restart}
            method = methods[candidate]
            own: dict[str, Any] = {"algorithm": describe(method), "model": describe_model(models[candidate])}
            if method.origin is not None:
                own["start"] = method.origin
            settings = {**several, **own, **common}  # a resumed run that differs names the first that does
            every = self.checkpoint_every
            model = models[candidate]
            if prepared.weights is not None:
                model = model.with_likelihood(Weighted.of(model.likelihood, prepared.weights))
            elif prepared.masked:
                model = model.with_likelihood(Masked(model.likelihood))
            is_part = method.runs > 1 or self.combine
            return Plan(model, method, prepared, settings, every, self.compares, is_part)

        return [plan(candidate, run) for candidate in models for run in range(max(self.restarts, method.runs))]
