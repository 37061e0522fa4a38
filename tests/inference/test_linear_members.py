"""Linear chains of several runs in one batch: exact for the data of each, equal to a run alone, resumed to the bit.

A Geweke test has 27 to 65 statistics; p-values are Bonferroni's. Sound sweeps of two runs must have p > 1e-3 at
a pinned seed (a false alarm in 2e-3 of the seeds), the planted fault p < 1e-6.
"""

import pytest
import torch

import linear_class_proofs as classes
import linear_gibbs_proofs as numbers
from r2d2net.inference import linear_classes, linear_sweep
from r2d2net.inference.linear_members import joined, parts
from r2d2net.inference.linear_targets import Classes, Regression
from r2d2net.priors import R2D2, Horseshoe

SOUND, FAULTY = 1e-3, 1e-6
DESIGNS = {
    "rows": [numbers.design(6, 3), 3 * numbers.design(6, 3, 8)],
    "inputs": [numbers.design(3, 6), 3 * numbers.design(3, 6, 8)],
}


def after_joint_sweeps(xs, states, problem_of, join, sweep, sweeps=4):
    """States of each run after sweeps of all chains together, targets drawn anew before each."""
    for _ in range(sweeps):
        problems = [problem_of(x, state) for x, state in zip(xs, states, strict=True)]
        states = parts(sweep(join(problems), joined(states)), len(xs))
    return states


def regression_p_values(xs, prior, *, chains=1000, seed=0, mixed=False):
    """p-values of the joint laws of two regressions, whose chains are swept in one batch."""
    generator = torch.Generator().manual_seed(seed)
    hyper = numbers.hyper_of(prior)
    targets = Regression(hyper, chains, intercept=False)  # a column of targets for each chain

    def problem_of(x, state):
        return numbers.problem_of(x, numbers.data_given(x, state, generator))

    def sweep(problem, states):
        return linear_sweep.sweep(problem, hyper, states, generator)

    states = [numbers.exact_draw(x, hyper, chains, generator) for x in xs]
    seen = xs[::-1] if mixed else xs
    states = after_joint_sweeps(seen, states, problem_of, lambda problems: targets.joined(problems, 1), sweep)
    found = []
    for x, own in zip(xs, states, strict=True):
        after, before = (numbers.features(x, hyper, c) for c in (own, numbers.exact_draw(x, hyper, chains, generator)))
        found.append(numbers.largest_difference(after, before)[2])
    return found


@pytest.mark.parametrize("shape", DESIGNS)
def test_regressions_keep_their_joint_laws(shape):
    assert min(regression_p_values(DESIGNS[shape], R2D2(a_pi=0.5))) > SOUND


def test_chains_with_the_inputs_of_another_run_are_caught():
    assert min(regression_p_values(DESIGNS["rows"], R2D2(a_pi=0.5), mixed=True)) < FAULTY


@pytest.mark.parametrize("logits", [1, 3])
@pytest.mark.parametrize("shape", DESIGNS)
def test_classes_keep_their_joint_laws(shape, logits):
    xs, count, generator = DESIGNS[shape], 1000, torch.Generator().manual_seed(1)
    hyper = classes.class_hyper(R2D2(a_pi=0.5))
    targets = Classes(hyper, max(2, logits), intercept=False)

    def problem_of(x, state):
        return classes.problem_of(x, classes.labels_given(x, state, logits, generator))

    def sweep(problem, states):
        return linear_classes.sweep(problem, hyper, states, generator)

    states = [classes.exact_draw(x, hyper, logits, count, generator) for x in xs]
    states = after_joint_sweeps(xs, states, problem_of, lambda problems: targets.joined(problems, count), sweep)
    for x, own in zip(xs, states, strict=True):
        fresh = classes.exact_draw(x, hyper, logits, count, generator)
        after, before = (classes.features(x, hyper, state, logits) for state in (own, fresh))
        z, worst, p_value = numbers.largest_difference(after, before)
        assert p_value > SOUND, (worst, z)


@pytest.mark.parametrize("spectrum", [0, 110])
def test_a_batch_of_one_run_is_the_run(spectrum, monkeypatch):
    """By Cholesky factors and by eigenvalues, with an intercept; to rounding."""
    prior = Horseshoe()
    monkeypatch.setattr(linear_sweep, "LARGEST_SPECTRUM", spectrum)
    for x in (numbers.design(9, 4) + 1, numbers.design(4, 9) + 1):
        y = x[:, :2] + 5
        for targets, own in (
            (Regression(numbers.hyper_of(prior), 2, intercept=True), y),
            (Classes(classes.class_hyper(prior), 3, intercept=True), torch.arange(len(x)) % 3),
            (Classes(classes.class_hyper(prior), 2, intercept=True), torch.arange(len(x)) % 2),
        ):
            problem = targets.problem(x, own)
            chains = targets.start(problem, targets.first(2, x.shape[1], generator := torch.Generator()), generator)
            if targets.starts_jointly:
                first = targets.first(2, x.shape[1], torch.Generator())
                given = targets.joined([problem], 2)
                start = targets.start(given, first, generator.manual_seed(2))
                alone = targets.start(problem, first, generator.manual_seed(2))
                torch.testing.assert_close(start.linear.weights, alone.linear.weights, rtol=1e-6, atol=1e-7)
            found = [
                targets.sweep(given, chains, torch.Generator().manual_seed(3), 0.5)
                for given in (problem, targets.joined([problem], 2))
            ]
            torch.testing.assert_close(found[1].linear.weights, found[0].linear.weights, rtol=1e-8, atol=1e-9)
            torch.testing.assert_close(found[1].intercept, found[0].intercept, rtol=1e-8, atol=1e-9)
