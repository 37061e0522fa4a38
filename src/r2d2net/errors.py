"""The exceptions of r2d2net: one root, typed children, messages that name argument, value and fix."""

from numbers import Integral


class R2D2NetError(Exception):
    """Root of every error that r2d2net raises on purpose."""


class ParameterError(R2D2NetError, ValueError):
    """An argument lies outside its range.

    It is a ``ValueError`` too, so code written for torch.distributions catches it unchanged.
    """


class DataError(R2D2NetError, ValueError):
    """Data that a model cannot take: wrong shape, wrong kind, not finite."""


class CheckpointError(R2D2NetError):
    """A saved run that is truncated, tampered with or made for another network."""


class DivergenceError(R2D2NetError, ArithmeticError):
    """Training met a number that is not finite."""


class Interrupted(R2D2NetError):  # noqa: N818 (it is no error)
    """The user stopped a command that can go on; the message says how."""


def require(condition: bool, argument: str, value: object, fix: str) -> None:
    """Raise a one-line `ParameterError` unless ``condition`` holds.

    >>> require(0.5 > 0, "scale", 0.5, "use a positive number")
    >>> require(-1 > 0, "scale", -1, "use a positive number")
    Traceback (most recent call last):
    ...
    r2d2net.errors.ParameterError: scale=-1 is out of range: use a positive number
    """
    if not condition:
        raise ParameterError(f"{argument}={value} is out of range: {fix}")


def require_seed(seed: object) -> None:
    """Raise a one-line `ParameterError` unless ``seed`` is a whole number.

    >>> require_seed(-3)
    >>> require_seed(True)
    Traceback (most recent call last):
    ...
    r2d2net.errors.ParameterError: seed=True is out of range: use a whole number
    """
    require(isinstance(seed, Integral) and not isinstance(seed, bool), "seed", repr(seed), "use a whole number")


def require_whole(argument: str, value: object, least: int = 1) -> None:
    """Raise a one-line `ParameterError` unless ``value`` is a whole number from ``least``.

    >>> require_whole("epochs", 2.5)
    Traceback (most recent call last):
    ...
    r2d2net.errors.ParameterError: epochs=2.5 is out of range: use a whole number from 1
    """
    fits = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least
    require(fits, argument, repr(value), f"use a whole number from {least}")
