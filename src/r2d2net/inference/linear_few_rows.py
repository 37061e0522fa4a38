"""The prior of a linear layer's noise where rows are too few for a predictive distribution with moments.

    sigma^2 ~ IG(a0 + m / 2, b0 + m s^2 / 2),      m = max(0, 4 - d - 2 a0),      s^2 = 1/2

Of d degrees of freedom (rows, less one for an intercept), sigma^2 | tau, y ~ IG(a0 + d/2, ...), and a prediction has
Student's t distribution with 2 a0 + d degrees of freedom: for d = 1 and a0 near 0 its mean hardly exists, and for d = 2
its variance does not. The m observations of the noise that are missing to four are given to the prior. Their variance
s^2 is half of that of a target of deviation 1, what the uniform prior on R2 expects. From d = 4 on m = 0: the prior is
IG(a0, b0), to the bit.
"""

from __future__ import annotations

LEAST_DEGREES = 4.0  # of Student's t for predictions: the variance exists from above 2 on, and 4 hold Monte Carlo error
EXPECTED = 0.5  # variance of the noise of a standardised target under R2 ~ U(0, 1)


def noise_prior(shape: float, rate: float, degrees: int) -> tuple[float, float]:
    """Add the degrees of freedom that are missing to a prior of the noise.

    Args:
        shape: a0 of sigma^2 ~ IG(a0, b0).
        rate: b0.
        degrees: Degrees of freedom d of the residuals.

    Returns:
        Shape and rate of the prior that is used.

    Example:
        >>> noise_prior(0.5, 0.25, 1), noise_prior(0.001, 0.001, 4)
        ((1.5, 0.75), (0.001, 0.001))
    """
    missing = max(0.0, LEAST_DEGREES - degrees - 2 * shape)
    return shape + missing / 2, rate + EXPECTED * missing / 2
