"""Runs that are killed and resumed until they end; `run/test_resume.py` compares what they leave with a run left alone.

    python killed_runs.py often FOLDER ALGORITHM KILLS     all cases: fork children, kill them at drawn moments
    python killed_runs.py once FOLDER ALGORITHM CASE       one run with resume, to be killed by the caller

`often` forks every child from one process that has imported torch, since that import takes seconds. A child kills
itself by SIGKILL (after a step; before, amid or after the write of a checkpoint), or is killed after a drawn time.
"""

import os
import random
import signal
import stat
import sys
import time
import traceback
from pathlib import Path

import torch
from torch import nn

import r2d2net as rn
from r2d2net import checkpoint
from r2d2net.inference.members import Members
from r2d2net.run.train import Plan

OURS = {"svgi": rn.inference.SVGI, "cavi": rn.inference.CAVI}
RIVALS = {
    "svi": rn.inference.SVI(),
    "mfvi": rn.inference.MFVI(),
    "radial": rn.inference.Radial(),
    "map": rn.inference.MAP(),
    "mcdropout": rn.inference.MCDropout(),
    "deepensemble": rn.inference.DeepEnsemble(members=2),
    "sgld": rn.inference.SGLD(burn_in=0.3, thin=2, memory=2000),  # room for 10 draws or so: they are thinned on the way
    "sghmc": rn.inference.SGHMC(burn_in=0.3, thin=2, cycles=2),
    "hmc": rn.inference.HMC(chains=2, max_tree_depth=3),
    "mclmc": rn.inference.MCLMC(chains=2, sweep_steps=3, start_steps=5),
}
PATH = {"linearfirst": rn.inference.LinearFirst(chains=2, epoch_steps=5)}
LINEAR = {"lineargibbs": rn.inference.LinearGibbs(chains=2, burn_in=0.3, memory=300)}  # room for a few draws
CLASSIFIERS = {"edl": rn.inference.EDL(), "dpn": rn.inference.DPN()}
ALGORITHMS = [*OURS, *RIVALS, *LINEAR, *PATH, *CLASSIFIERS]
PRIORS = {"r2d2": rn.priors.R2D2(), "horseshoe": rn.priors.Horseshoe(), "restarts": rn.priors.Horseshoe()}
PRIORS |= {
    "linear": rn.priors.R2D2(),
    "path": rn.priors.R2D2(),
    "rival": rn.priors.Gaussian(),
    "classes": rn.priors.Gaussian(),
}
KINDS = {"rival": RIVALS, "linear": LINEAR, "path": PATH, "classes": CLASSIFIERS}
MOMENTS = ("step", "amid write", "before rename", "after rename", "time")


def cases(algorithm):
    if algorithm in OURS:
        return ["r2d2", "horseshoe", "restarts"]
    return [next(case for case, names in KINDS.items() if algorithm in names)]


def network(case):
    generator = torch.Generator().manual_seed(1)
    middle = [nn.BatchNorm1d(3), nn.ReLU(), nn.Dropout(0.2)] if case == "r2d2" else [nn.Tanh()]
    net = nn.Sequential(nn.Linear(3, 3), *middle, nn.Linear(3, 3 if case == "classes" else 1))
    net = nn.Linear(3, 1) if case == "linear" else net
    net = rn.nets.LinearPath(net, 3) if case == "path" else net
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.normal_(generator=generator)
    return net


def data(case):
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(36, 3, generator=generator)
    if case == "classes":
        return x, x.argmax(1)
    return x, 5 + 3 * x[:, 0] + torch.randn(36, generator=generator)


def run(case, algorithm, **options):
    """R2D2 with BatchNorm, Dropout and early stopping, a checkpoint a step; or the horseshoe, a checkpoint an epoch,
    once or from two starts; or a rival with a Gaussian prior, a checkpoint a step.

    The steps are so large that the validation score rises soon and the patience is used up before the last epoch.
    """
    if algorithm in OURS:
        method = OURS[algorithm](lr=0.4, schedule="constant", sweep_every=2)
    else:
        method = {**RIVALS, **LINEAR, **PATH, **CLASSIFIERS}[algorithm]
    if case == "r2d2":
        options |= {"validation": 0.25, "patience": 2, "checkpoint_every": 0, "batch_size": 12}
    elif algorithm in OURS:
        options |= {"checkpoint_every": "epoch", "batch_size": 16}
    else:
        rows = {} if method.full_batch else {"batch_size": 12}
        options |= {"checkpoint_every": 0, "jobs": 1, **rows}
    if case == "restarts":
        options = {"restarts": 2, "jobs": 1, **options}
    likelihood = rn.likelihoods.Categorical() if case == "classes" else rn.likelihoods.Gaussian()
    model = rn.BayesianModel(network(case), prior=PRIORS[case], likelihood=likelihood)
    return rn.fit(model, data(case), method, **{"epochs": 10, "seed": 3, "verbose": False, **options})


def kill_at(moment, count, cut):
    """Have this process killed at the count-th moment of its kind."""
    calls = 0

    def due():
        nonlocal calls
        calls += 1
        return calls == count

    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    build, fsync, replace = Plan.build, os.fsync, os.replace

    def killing(step):
        def killing_step(*arguments):
            result = step(*arguments)
            return die() if due() else result

        return killing_step

    def killing_build(plan):
        running = build(plan)
        running.step = killing(running.step)
        return running

    def killing_fsync(file):
        if stat.S_ISREG(os.fstat(file).st_mode) and due():
            os.ftruncate(file, int(cut * os.fstat(file).st_size))
            die()
        fsync(file)

    def killing_replace(source, target):
        is_due = due()
        if is_due and moment == "before rename":
            die()
        replace(source, target)
        if is_due:
            die()

    if moment == "step":
        Plan.build, Members.step = killing_build, killing(Members.step)
    elif moment == "amid write":
        checkpoint.os.fsync = killing_fsync
    elif moment in ("before rename", "after rename"):
        os.replace = killing_replace


def fork(work):
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def warm_up(prior):
    """Build the tables that priors keep, once for all children. (No backward pass: torch forbids it before a fork.)"""
    generator = torch.Generator().manual_seed(0)
    w = torch.ones(3, 3)
    scales = prior.gibbs(w, prior.init_scales((3, 3), generator), generator)
    prior.cavi(w, scales).bound(w)


def often(folder, algorithm, case, kills):
    draw = random.Random(f"{algorithm} {case}")
    killed, runs = dict.fromkeys(MOMENTS, 0), 0
    warm_up(PRIORS[case])
    fork(lambda: run(case, algorithm).save(folder / "alone"))
    assert os.wait()[1] == 0
    place = folder / "killed-0"
    while True:
        is_last = sum(killed.values()) >= kills
        moment, count, cut, delay = draw.choice(MOMENTS), draw.randint(1, 4), draw.random(), draw.uniform(0, 0.2)

        def work(is_last=is_last, moment=moment, count=count, cut=cut, place=place):
            if not is_last:
                kill_at(moment, count, cut)
            run(case, algorithm, resume=place)

        pid = fork(work)
        if moment == "time" and not is_last:
            time.sleep(delay)
            os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.wait()[1])
        if status == -signal.SIGKILL:
            killed[moment] += 1
            continue
        assert status == 0, f"a resumed run failed with {status}"
        if is_last:
            break
        runs += 1
        place = folder / f"killed-{runs}"
    print(case, *(f"{moment}={count}" for moment, count in killed.items()), sep=", ", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    how, folder, algorithm, last = sys.argv[1:]
    if how == "often":
        for case in cases(algorithm):
            often(Path(folder) / case, algorithm, case, int(last))
    else:
        print("ready", flush=True)
        run(last, algorithm, resume=folder)
