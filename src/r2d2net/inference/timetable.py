"""When a sampler explores, when it keeps draws, and how large its steps are.

Burn-in and cycles (Zhang et al., 2020) are one thing: a cycle first explores, then keeps draws, and a run without
cycles is one of them. With E steps that explore and i = 0, 1, ... the place of a step in its cycle,

    step size / largest  =  1/10 + 9/20 (1 + cos(pi min(1, i / E)))

but for a rise over the first steps. So draws are made with a tenth of the size that finds a mode; the authors' cosine
goes on to zero instead, where draws are hardly different from each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from r2d2net.inference.descent import RISE_SHARE

SETTLED = 0.1  # step size of the draws, as a share of the largest


@dataclass(frozen=True)
class Timetable:
    """The phases of a run; steps are t = 1, 2, ...

    Args:
        steps: Steps of the run.
        cycles: Number of cycles; None is one.
        burn_in: Share of a cycle's steps that explore.
        falls: Whether the step size falls; else it is constant.

    Example:
        >>> times = Timetable(steps=10, cycles=2, burn_in=0.6)
        >>> "".join(".x"[not times.explores(t)] for t in range(1, 11)), times.sampled(10)
        ('...xx...xx', 4)
    """

    steps: int
    cycles: int | None = None
    burn_in: float = 0.5
    falls: bool = True

    @property
    def length(self) -> int:
        """Steps of a cycle; the last may have fewer."""
        return math.ceil(self.steps / (self.cycles or 1))

    @property
    def exploring(self) -> int:
        """Steps of a cycle before its draws."""
        return round(self.burn_in * self.length)

    def explores(self, t: int) -> bool:
        """Return whether step t precedes the draws of its cycle."""
        return (t - 1) % self.length < self.exploring

    def starts(self, t: int) -> bool:
        """Return whether a phase starts with step t."""
        return (t - 1) % self.length in (0, self.exploring)

    def sampled(self, t: int) -> int:
        """Return how many of the first t steps belong to sampling phases."""
        full, rest = divmod(t, self.length)
        return full * (self.length - self.exploring) + max(0, rest - self.exploring)

    def step_size(self, t: int) -> float:
        """Return the size of step t as a share of the largest; it rises over the first 5% of a cycle."""
        if not self.exploring:
            return 1.0
        place = (t - 1) % self.length
        rising = min(1.0, (place + 1) / min(RISE_SHARE * self.length, self.exploring))
        if not self.falls:
            return rising
        fallen = 0.5 * (1 + math.cos(math.pi * min(1.0, place / self.exploring)))
        return rising * (SETTLED + (1 - SETTLED) * fallen)
