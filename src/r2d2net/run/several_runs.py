"""Several runs of one problem: from different starts or under different priors, of which validation finds the best;
or members of an ensemble, chains of a sampler and runs to be mixed, which make one posterior together.

The score is the negative log predictive density of the validation rows (nats a row, in the user's units) of the state
that each run would return. Every run is an ordinary one in a folder of its own,
`r2d2net-candidates/<prior>-<restart>`: so processes hand over results as files, and an interrupted choice goes on with
what is there. Each uses one thread, wherever it runs: the outcome does not depend on how many run at a time. Runs of a
small perceptron are trained side by side in groups (`side_by_side`), each of which is one task.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from statistics import fmean as mean
from typing import Any, NamedTuple

import cloudpickle
import joblib

from r2d2net import checkpoint
from r2d2net.errors import Argument, DivergenceError, ParameterError, Value
from r2d2net.inference import DrawSource
from r2d2net.inference.collection import merged
from r2d2net.inference.mean_field_mixture import Combined, mixture_of
from r2d2net.manifest import tidy
from r2d2net.posterior import FILE, INTERRUPTED, Posterior
from r2d2net.ranks import ALONE, Ranks
from r2d2net.run.health import look_at
from r2d2net.run.on_ranks import read_from
from r2d2net.run.orphans import end_with
from r2d2net.run.progress import lines
from r2d2net.run.rank_folders import exchange_runs, folder_of_ranks, jobs_of, packed
from r2d2net.run.ray_runs import outcomes_on_ray
from r2d2net.run.resume import finished, finished_file, require_same
from r2d2net.run.side_by_side import groups_of, train_together
from r2d2net.run.threads import one_thread
from r2d2net.run.train import Plan, train, with_noise_of_validation
from r2d2net.specification import describe, reading

FOLDER = "r2d2net-candidates"  # removed in the end: a name that nobody else gives a folder


def run_several(
    plans: Sequence[Plan],
    folder: Path | None,
    *,
    resume: bool,
    jobs: int | None,
    verbose: bool,
    ranks: Ranks = ALONE,
    cluster: str | None = None,
) -> Posterior[Any]:
    """Run all plans and return one posterior.

    Args:
        plans: The runs. Those that are compared leave the posterior with the least validation score, which knows the
            scores of all; others leave one posterior of all their stored draws, or an equal mixture of them.
        folder: Where the runs are kept until they are done, and their posterior then; None uses a temporary one.
        resume: Whether to go on with the runs that the folder holds.
        jobs: Runs at a time, in processes of one thread each; None takes as many as there are cores.
        verbose: Whether to show progress on a terminal.
        ranks: The processes among which the runs are spread; all of them call this, and all have the posterior.
        cluster: "ray" makes the runs as tasks of a Ray cluster; None on this machine.

    Returns:
        The posterior.
    """
    if ranks.size > 1:
        return _on_ranks(plans, folder, resume, jobs, verbose, ranks)
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="r2d2net-") as temporary:
            return _combined(plans, Path(temporary), jobs, verbose, cluster=cluster)
    if resume:
        done = _finished(plans, folder)
        if done is not None:
            clear(folder)
            return done
    started = folder / INTERRUPTED  # without tensors: says to which runs the candidates belong
    if resume and started.exists():
        with reading(started):
            require_same(started, checkpoint.read(started)[1]["settings"], plans[0].settings)
    else:
        clear(folder)
        checkpoint.write(started, {}, {"settings": plans[0].settings})
    tidy(folder)
    posterior = _combined(plans, folder / FOLDER, jobs, verbose, cluster=cluster)
    posterior.save(folder)
    started.unlink()
    clear(folder)
    return posterior


def _on_ranks(
    plans: Sequence[Plan], folder: Path | None, resume: bool, jobs: int | None, verbose: bool, ranks: Ranks
) -> Posterior[Any]:
    """Spread runs over processes, each of which runs some and hands over their files; rank 0 keeps the folder."""
    own = folder if ranks.is_first else None

    def begin() -> Posterior[Any] | None:
        """Do what a run of one process does first."""
        if own is None:
            return None
        done = _finished(plans, own) if resume else None
        started = own / INTERRUPTED
        if done is None and resume and started.exists():
            with reading(started):
                require_same(started, checkpoint.read(started)[1]["settings"], plans[0].settings)
        else:
            clear(own)
            if done is None:
                checkpoint.write(started, {}, {"settings": plans[0].settings})
        tidy(own)
        return done

    done = ranks.first(begin)
    which = ranks.share_json(None if done is None else [done.settings["candidate"], done.settings["restart"]])
    if which is not None:
        content = ranks.share_bytes(packed(own) if own is not None else b"")
        plan = next(p for p in plans if [p.settings["candidate"], p.settings["restart"]] == which)
        posterior = read_from(content, _whole(plan)) if done is None else done
        assert posterior is not None
        return posterior
    with folder_of_ranks(None if own is None else own / FOLDER, ranks) as place:
        posterior = _combined(plans, place, jobs_of(jobs), verbose, ranks)
        ranks.barrier()  # all have read the files
    if own is not None:
        posterior.save(own)
        (own / INTERRUPTED).unlink()
        clear(own)
    return posterior


def clear(folder: Path) -> None:
    """Remove the folders of the single runs of a finished or abandoned choice or ensemble."""
    if (folder / FOLDER).exists():
        shutil.rmtree(folder / FOLDER)


def run_all(plans: Sequence[Plan], folder: Path, jobs: int | None, verbose: bool) -> list[Posterior[Any] | None]:
    """Run plans of any kind in folders of their own; what they warn of is for the caller to judge.

    Args:
        plans: The runs, each with another name under ``settings["candidate"]``.
        folder: Where the folders of the runs are; those that are finished there are not run again.
        jobs: Runs at a time, in processes of one thread each; None takes as many as there are cores.
        verbose: Whether to show progress on a terminal.

    Returns:
        The posterior of each run; None where it diverged.
    """
    folders, outcomes = _run_all(plans, folder, jobs, verbose, quiet=True)
    return [
        finished(place, plan) if outcome.failure is None else None
        for place, plan, outcome in zip(folders, plans, outcomes, strict=True)
    ]


# --- the runs


class Outcome(NamedTuple):
    """The end of a run: its score if it was compared, or the reason of its failure."""

    score: float | None
    failure: DivergenceError | None


def _combined(
    plans: Sequence[Plan],
    folder: Path,
    jobs: int | None,
    verbose: bool,
    ranks: Ranks = ALONE,
    cluster: str | None = None,
) -> Posterior[Any]:
    """Run all plans in folders of their own and combine them to one posterior."""
    folders, outcomes = _run_all(plans, folder, jobs, verbose, ranks=ranks, cluster=cluster)
    return _best(plans, folders, outcomes) if plans[0].compared else _merged(plans, folders, outcomes)


def _best(plans: Sequence[Plan], folders: Sequence[Path], outcomes: Sequence[Outcome]) -> Posterior[Any]:
    """Return the best of the compared runs, without those that diverged."""
    entries = [_entry(plan, outcome) for plan, outcome in zip(plans, outcomes, strict=True)]
    finite = [index for index, entry in enumerate(entries) if entry["validation"] is not None]
    if not finite:
        raise _named_failure(f"all {len(plans)} runs failed; the first: ", outcomes[0])
    best = min(finite, key=lambda index: entries[index]["validation"])
    posterior = finished(folders[best], plans[best])
    assert posterior is not None
    posterior.candidates = entries
    return posterior


def _merged(plans: Sequence[Plan], folders: Sequence[Path], outcomes: Sequence[Outcome]) -> Posterior[Any]:
    """Return all draws of the runs as one posterior; if one run failed there is none."""
    for number, outcome in enumerate(outcomes, 1):
        if outcome.failure is not None:
            raise _named_failure(f"run {number} of {len(plans)}: ", outcome)
    each = [finished(folder, plan) for folder, plan in zip(folders, plans, strict=True)]
    parts = [posterior for posterior in each if posterior is not None]
    plan = _whole(plans[0])
    if isinstance(plan.method, Combined):
        together: DrawSource[Any] = mixture_of([posterior.source for posterior in parts])
    else:
        together = parts[0].source.with_state(merged([posterior.source.state for posterior in parts]))
    prepared = plans[0].prepared.plain()
    history = [
        {name: mean(entry[name] for entry in there if name in entry) for name in there[0]}
        for epoch in zip_longest(*(posterior.history for posterior in parts))
        if (there := [entry for entry in epoch if entry is not None])  # of the runs that have not stopped yet
    ]
    source = with_noise_of_validation(together, prepared)
    return Posterior(
        source,
        prepared.units,
        flat_target=prepared.flat_target,
        history=history,
        settings=plan.settings,
        health=look_at(source, prepared, history if plans[0].method.optimizes else ()),
    )


def _whole(plan: Plan) -> Plan:
    """Return the plan of the posterior that all runs make together, by which it is read; it differs for mixtures."""
    if not plan.settings.get("combine"):
        return plan
    method = Combined(parts=plan.settings["restarts"], of=plan.settings["algorithm"])
    return replace(plan, method=method, settings={**plan.settings, "algorithm": describe(method)})


def _run_all(
    plans: Sequence[Plan],
    folder: Path,
    jobs: int | None,
    verbose: bool,
    *,
    quiet: bool = False,
    ranks: Ranks = ALONE,
    cluster: str | None = None,
) -> tuple[list[Path], list[Outcome]]:
    """Run all plans in folders of their own; return the folders and the outcomes of the runs."""
    folders = [folder / f"{plan.settings['candidate']}-{plan.settings['restart']}" for plan in plans]
    outcomes: dict[int, Outcome] = {}
    show = lines(verbose=verbose)
    for index, outcome in _outcomes(plans, folders, jobs, quiet, ranks, cluster):
        outcomes[index] = outcome
        settings, end = plans[index].settings, "done" if outcome.score is None else f"validation {outcome.score:.4g}"
        if outcome.failure is not None:
            end = str(outcome.failure)
        label = f"prior {settings['candidate']}, restart {settings['restart']}, " if plans[index].compared else ""
        show(f"run {len(outcomes)} of {len(plans)}: {label}{end}")
    return folders, [outcomes[index] for index in range(len(plans))]


def _entry(plan: Plan, outcome: Outcome) -> dict[str, Any]:
    entry = {"prior": plan.settings["candidate"], "restart": plan.settings["restart"], "validation": outcome.score}
    return entry if outcome.failure is None else {**entry, "error": str(outcome.failure)}


def _named_failure(run: str, outcome: Outcome) -> DivergenceError:
    """Return the failure of one run as an error of all, beginning with the number of the run."""
    assert outcome.failure is not None
    problem = outcome.failure.problem
    parts = (problem,) if isinstance(problem, str) else problem
    return DivergenceError((run, *parts), fix=outcome.failure.fix)


def _outcomes(
    plans: Sequence[Plan], folders: Sequence[Path], jobs: int | None, quiet: bool, ranks: Ranks, cluster: str | None
) -> Iterator[tuple[int, Outcome]]:
    """Yield the number and outcome of each run as it ends; those of other ranks come last."""
    groups = groups_of(plans)
    if cluster is not None:
        parts = [([plans[i] for i in group], [folders[i] for i in group]) for group in groups]
        for number, outcomes in outcomes_on_ray(_run, parts, jobs, quiet):
            yield from zip(groups[number], outcomes, strict=True)
        return
    if ranks.size == 1:
        yield from _outcomes_here(plans, folders, groups, jobs, quiet)
        return
    mine = dict(_outcomes_here(plans, folders, groups[ranks.rank :: ranks.size], jobs, quiet))
    yield from mine.items()
    told = {k: [o.score, None if o.failure is None else str(o.failure)] for k, o in mine.items()}
    for rank, theirs in enumerate(ranks.gather_json(told)):
        if rank != ranks.rank:
            for index, (score, failure) in theirs.items():
                error = None if failure is None else DivergenceError(failure)
                yield int(index), Outcome(score, error)
    exchange_runs(folders, ranks)


def _outcomes_here(
    plans: Sequence[Plan], folders: Sequence[Path], groups: Sequence[Sequence[int]], jobs: int | None, quiet: bool
) -> Iterator[tuple[int, Outcome]]:
    """Yield the number and outcome of each run of some groups as it ends, in processes of this machine."""
    on_cpu = plans[0].model.device.type == "cpu"
    if not groups:
        return
    workers = min(len(groups), joblib.cpu_count() if jobs is None else jobs) if on_cpu else 1
    parts = [([plans[i] for i in group], [folders[i] for i in group]) for group in groups]
    if workers == 1 or not _can_be_sent(plans[0], jobs):
        for group, part in zip(groups, parts, strict=True):
            yield from zip(group, _run(*part, quiet), strict=True)
        return
    pool = joblib.Parallel(workers, backend="loky", return_as="generator_unordered", max_nbytes=None)
    parent = os.getpid()
    tasks = enumerate(parts)
    for number, outcomes in pool(joblib.delayed(_work)(number, *part, parent, quiet) for number, part in tasks):
        yield from zip(groups[number], outcomes, strict=True)


def _can_be_sent(plan: Plan, jobs: int | None) -> bool:
    """Return whether a plan can be sent to other processes; if not, explicit ``jobs`` are an error."""
    try:
        cloudpickle.dumps(plan)  # as joblib will
    except Exception as error:  # objects of the user's may fail to pickle in any way
        if jobs is None:
            return False
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        problem = f": model or data do not pickle ({reason})"
        raise ParameterError(problem, argument="jobs", value=jobs, fix=("use ", Argument("jobs", 1))) from error
    return True


def _work(
    number: int, plans: Sequence[Plan], folders: Sequence[Path], parent: int, quiet: bool
) -> tuple[int, list[Outcome]]:
    """Carry out a group of runs in a worker process."""
    end_with(parent)
    return number, _run(plans, folders, quiet)


def _run(plans: Sequence[Plan], folders: Sequence[Path], quiet: bool) -> list[Outcome]:
    """Carry out a group of runs: one by itself, several side by side."""
    with one_thread(), warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore")
        if len(plans) > 1:
            return [_outcome(plan, end) for plan, end in zip(plans, train_together(plans, folders), strict=True)]
        try:
            return [_outcome(plans[0], train(plans[0], folders[0], resume=True, verbose=False))]
        except DivergenceError as error:
            return [Outcome(None, error)]


def _outcome(plan: Plan, end: Posterior[Any] | DivergenceError) -> Outcome:
    if isinstance(end, DivergenceError):
        return Outcome(None, end)
    if not plan.compared:
        return Outcome(None, None)
    score = end.candidates[0]["validation"]
    if math.isfinite(score):
        return Outcome(score, None)
    return Outcome(None, DivergenceError(("its validation score is ", Value(score))))


def _finished(plans: Sequence[Plan], folder: Path) -> Posterior[Any] | None:
    """Return the posterior of a choice that was made in this folder before, or None."""
    file = finished_file(folder)
    if file is None:
        return None
    with reading(folder / FILE):
        saved = file.settings
        same = [plan for plan in plans if all(saved.get(k) == plan.settings[k] for k in ("candidate", "restart"))]
    plan = same[0] if same else plans[0]  # the latter differs, and the error names the difference
    return finished(folder, _whole(plan))
