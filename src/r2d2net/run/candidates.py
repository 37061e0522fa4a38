"""Several runs of one problem, from different starts or under different priors, and the best of them by validation.

The score is the negative log predictive density of the validation rows (nats a row, in the user's units) of the state
that each run would return. Every run is an ordinary one in a folder of its own,
`r2d2net-candidates/<prior>-<restart>`: so processes hand over results as files, and an interrupted choice goes on with
what is there. Each uses one thread, wherever it runs: the outcome does not depend on how many run at a time.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import cloudpickle
import joblib

from r2d2net import checkpoint
from r2d2net.errors import DivergenceError, ParameterError
from r2d2net.model import BayesianModel
from r2d2net.posterior import FILE, INTERRUPTED, Posterior
from r2d2net.priors import R2D2
from r2d2net.run.progress import lines
from r2d2net.run.resume import finished, require_same
from r2d2net.run.threads import one_thread
from r2d2net.run.train import Plan, train

FOLDER = "r2d2net-candidates"  # removed in the end: a name that nobody else gives a folder
ORPHAN_SECONDS = 0.2  # between two looks at whether the parent lives


def models_to_compare(model: BayesianModel, prior: Literal["auto"] | None) -> dict[str, BayesianModel]:
    """The models among which validation chooses, by the name of their prior; a linear network has one."""
    if prior is None:
        return {"given": model}
    priors = {"adaptive": R2D2.adaptive(), "adaptive-without-floor": R2D2.adaptive(floor=False)}
    return {name: model.with_prior(one) for name, one in priors.items() if name == "adaptive" or not model.is_linear}


def best_of(plans: Sequence[Plan], folder: Path | None, *, resume: bool, jobs: int | None, verbose: bool) -> Posterior:
    """Run all plans and return the posterior with the least validation score, which knows the scores of all."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="r2d2net-") as temporary:
            return _run_all(plans, Path(temporary), jobs, verbose)
    if resume:
        done = _finished(plans, folder)
        if done is not None:
            clear(folder)
            return done
    started = folder / INTERRUPTED  # without tensors: says to which runs the candidates belong
    if resume and started.exists():
        require_same(started, checkpoint.read(started)[1]["settings"], plans[0].settings)
    else:
        clear(folder)
        checkpoint.write(started, {}, {"settings": plans[0].settings})
    checkpoint.remove_partial(folder)
    posterior = _run_all(plans, folder / FOLDER, jobs, verbose)
    posterior.save(folder)
    started.unlink()
    clear(folder)
    return posterior


def clear(folder: Path) -> None:
    """Remove the candidates of a choice that has been made or given up."""
    if (folder / FOLDER).exists():
        shutil.rmtree(folder / FOLDER)


# --- the runs


class Outcome(NamedTuple):
    """How a run ended: its score, or why it has none."""

    score: float | None
    failure: str | None


def _run_all(plans: Sequence[Plan], folder: Path, jobs: int | None, verbose: bool) -> Posterior:
    """Run all plans in folders of their own and return the best; divergence of one is no concern of the others."""
    folders = [folder / f"{plan.settings['candidate']}-{plan.settings['restart']}" for plan in plans]
    outcomes: dict[int, Outcome] = {}
    show = lines(verbose=verbose)
    for index, outcome in _outcomes(plans, folders, jobs):
        outcomes[index] = outcome
        which, end = plans[index].settings, outcome.failure or f"validation {outcome.score:.4g}"
        show(f"run {len(outcomes)} of {len(plans)}: prior {which['candidate']}, restart {which['restart']}, {end}")
    entries = [_entry(plan, outcomes[index]) for index, plan in enumerate(plans)]
    finite = [index for index, entry in enumerate(entries) if entry["validation"] is not None]
    if not finite:
        raise DivergenceError(f"all {len(plans)} runs failed; the first: {entries[0]['error']}")
    best = min(finite, key=lambda index: entries[index]["validation"])
    posterior = finished(folders[best], plans[best].build(), plans[best].settings)
    assert posterior is not None
    posterior.candidates = entries
    return posterior


def _entry(plan: Plan, outcome: Outcome) -> dict[str, Any]:
    entry = {"prior": plan.settings["candidate"], "restart": plan.settings["restart"], "validation": outcome.score}
    return entry if outcome.failure is None else {**entry, "error": outcome.failure}


def _outcomes(plans: Sequence[Plan], folders: Sequence[Path], jobs: int | None) -> Iterator[tuple[int, Outcome]]:
    """The number of each run and its outcome, as they come to their ends."""
    on_cpu = plans[0].model.device.type == "cpu"
    workers = min(len(plans), joblib.cpu_count() if jobs is None else jobs) if on_cpu else 1
    if workers == 1 or not _can_be_sent(plans[0], jobs):
        for index, (plan, folder) in enumerate(zip(plans, folders, strict=True)):
            yield index, _run(plan, folder)
        return
    pool = joblib.Parallel(workers, backend="loky", return_as="generator_unordered", max_nbytes=None)
    parent = os.getpid()
    tasks = enumerate(zip(plans, folders, strict=True))
    yield from pool(joblib.delayed(_work)(index, plan, folder, parent) for index, (plan, folder) in tasks)


def _can_be_sent(plan: Plan, jobs: int | None) -> bool:
    """Whether other processes can be given the plan; if not, and processes were asked for, an error."""
    try:
        cloudpickle.dumps(plan)  # as joblib will
    except Exception as error:  # objects of the user's may fail to pickle in any way
        if jobs is None:
            return False
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ParameterError(f"jobs={jobs}: model or data do not pickle ({reason}): use jobs=1") from error
    return True


def _work(index: int, plan: Plan, folder: Path, parent: int) -> tuple[int, Outcome]:
    """One run in a process of its own."""
    if os.name == "posix":
        _end_with(parent)
    return index, _run(plan, folder)


def _run(plan: Plan, folder: Path) -> Outcome:
    with one_thread():
        try:
            score = train(plan, folder, resume=True, verbose=False).candidates[0]["validation"]
        except DivergenceError as error:
            return Outcome(None, str(error))
    return Outcome(score, None) if math.isfinite(score) else Outcome(None, f"its validation score is {score}")


@cache
def _end_with(parent: int) -> None:
    """End this process soon after its parent: a resumed run must find nobody writing to its folder."""
    direct = os.getppid()  # it differs from ``parent`` if that is dead already, or behind a wrapper

    def watch() -> None:
        while os.getppid() == direct and _lives(parent):
            time.sleep(ORPHAN_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _finished(plans: Sequence[Plan], folder: Path) -> Posterior | None:
    """The posterior of a choice that has been made in this folder."""
    if (folder / INTERRUPTED).exists() or not (folder / FILE).exists():
        return None
    saved = checkpoint.read(folder / FILE)[1]["settings"]
    which = [plan for plan in plans if all(saved.get(k) == plan.settings[k] for k in ("candidate", "restart"))]
    plan = which[0] if which else plans[0]  # the latter differs, and the error says in what
    return finished(folder, plan.build(), plan.settings)
