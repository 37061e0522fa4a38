"""Which models of a search fit into its seconds.

    expected seconds of a run        init and first step + further steps * their mean time in a trial
    of several by W processes        max(largest of them, sum of them / W)

A trial is the beginning of a run on a fold's rows, cut after a fiftieth of the seconds asked for; runs of MCLMC, whose
chains cost more than their start, count 2.2 times. Candidates whose fits to the first fold are not expected to end in
time are skipped, the dearest first; the last one is never. What the first fold really took corrects the expectation by
which folds are added and fits to all rows are made: a candidate without such a fit is represented by its fits to the
folds, which have seen nearly as many rows. Processes are started where they are expected to save more than their own
start takes.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from r2d2net.errors import DataError, DivergenceError, ParameterError
from r2d2net.inference import MCLMC
from r2d2net.run.batches import mix
from r2d2net.run.global_generator import lent_generator
from r2d2net.run.threads import one_thread
from r2d2net.run.train import Plan

TRIAL = 0.02  # of the seconds asked for, that the trial of a candidate may take
CHAINS = 2.2  # mean cost of MCLMC's steps in that of its first ones
PROCESSES = 5.0  # seconds that processes take to start, in those of a processor


@dataclass
class Budget:
    """Seconds of a search, and what its runs are expected to take of them.

    Attributes:
        asked: The seconds; None for no bound.
        start: When they began, by `time.monotonic`.
        workers: Runs at a time; 1 where processes are not worth their start.
        seconds: Expected seconds of a fit of each candidate to the rows of a fold.
        skipped: Names of candidates that were not fitted.
        not_refitted: Names of those with a weight that were not fitted to all rows.
        parts: What the seconds went into: "what", "seconds", and "expected" where they had been estimated.
    """

    asked: float | None
    start: float
    workers: int = 1
    seconds: dict[int, float] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    not_refitted: list[str] = field(default_factory=list)
    parts: list[dict[str, Any]] = field(default_factory=list)

    @property
    def used(self) -> float:
        """Seconds since the start."""
        return clock.monotonic() - self.start

    def together(self, numbers: Sequence[int]) -> float:
        """Return the expected seconds of fits of some candidates.

        >>> Budget(60, 0, 2, {0: 5.0, 1: 5.0, 2: 30.0}).together([0, 1, 2])
        30.0
        """
        each = [self.seconds.get(number, 0.0) for number in numbers]
        return max([*each, sum(each) / self.workers])

    def affordable(self, numbers: Sequence[int], longer: float = 1.0) -> list[int]:
        """Return the first of some candidates that fit into what is left, given by how much longer their runs are.

        Args:
            numbers: The candidates, the one that matters most first.
            longer: Length of their runs in those to a fold.
        """
        chosen: list[int] = []
        for number in numbers:
            if self.asked is None or self.used + longer * self.together([*chosen, number]) <= self.asked:
                chosen.append(number)
        return chosen

    def first(self, plans: Mapping[int, Callable[[], Plan]]) -> list[int]:
        """Choose the candidates that are fitted to the first fold, by trials.

        Args:
            plans: Builders of their runs on the rows of that fold.

        Returns:
            Their numbers: all without a bound, and the cheapest at least.
        """
        if self.asked is None:
            return list(plans)
        self.note("reading, choice of the likelihood", self.start)
        if self.used >= self.asked:
            return [min(plans)]
        wall, processor = clock.monotonic(), clock.process_time()
        with one_thread():
            self.seconds = {number: expected_seconds(build, TRIAL * self.asked) for number, build in plans.items()}
        self.note("trials", wall)
        busy = max(1.0, (clock.monotonic() - wall) / max(clock.process_time() - processor, 1e-3))
        chosen = sorted(plans, key=lambda number: (self.seconds[number], number))
        starts = PROCESSES * busy
        if sum(self.seconds.values()) - self.together(chosen) < starts:
            self.workers, starts = 1, 0.0
        while len(chosen) > 1 and self.used + starts + self.together(chosen) > self.asked:
            chosen.pop()
        return sorted(chosen)

    def learn(self, numbers: Sequence[int], seconds: float) -> None:
        """Correct what is expected by what fits have taken together."""
        expected = self.together(numbers)
        if expected > 0:
            self.seconds = {number: value * seconds / expected for number, value in self.seconds.items()}

    def note(self, what: str, begun: float, expected: float | None = None) -> None:
        """Remember what seconds went into.

        Args:
            what: What was done.
            begun: When it was begun, by `time.monotonic`.
            expected: Seconds that it had been expected to take.
        """
        estimate = {} if expected is None else {"expected": round(expected, 1)}
        self.parts.append({"what": what, "seconds": round(clock.monotonic() - begun, 1), **estimate})

    def record(self) -> dict[str, Any]:
        """Return what became of the seconds, for JSON."""
        left_out = {"skipped": self.skipped, "not_refitted": self.not_refitted, "parts": self.parts}
        return {"asked": self.asked, "used": round(self.used, 1), **left_out}


def expected_seconds(build: Callable[[], Plan], most: float) -> float:
    """Estimate how long a run takes by its beginning.

    Args:
        build: Builds the run.
        most: Seconds after which the trial ends, at the end of a step.

    Returns:
        The seconds; 0 of a run that is refused or fails at once, which costs nothing.
    """
    begun = clock.monotonic()
    try:
        plan = build()
        trainer, prepared = plan.trainer, plan.prepared
        generator = plan.generator()
        state = trainer.init(prepared.y, generator, prepared.units.y)
        first, ends = clock.monotonic(), list[float]()
        total = plan.settings["epochs"] * prepared.batches.per_epoch()
        while len(ends) < total and clock.monotonic() - first < most:
            for batch in prepared.batches.epoch(len(ends) // prepared.batches.per_epoch()):
                with lent_generator(mix(plan.seed, -3 - len(ends)), plan.model.device):
                    state, _ = trainer.step(state, batch, generator)
                ends.append(clock.monotonic())
                if len(ends) > 1 and ends[-1] - first >= most:
                    break
    except (DataError, ParameterError, DivergenceError):
        return 0.0
    if len(ends) < 2:
        return clock.monotonic() - begun
    each = (ends[-1] - ends[0]) / (len(ends) - 1)  # without the first step, which also warms up
    return ends[0] - begun + (total - 1) * each * (CHAINS if isinstance(plan.method, MCLMC) else 1.0)
