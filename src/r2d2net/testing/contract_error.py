"""The error of a contract test, and the way in which all of them are run: it names the property that does not hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


class ContractError(AssertionError):
    """A property of the contract that an object does not have.

    Attributes:
        subject: The object, as it prints.
        property: Name of the property, one of the keys of `PRIOR_CHECKS`, `LIKELIHOOD_CHECKS` or `ALGORITHM_CHECKS`.
        reason: What was found instead.
    """

    def __init__(self, subject: str, property: str, reason: str) -> None:
        self.subject, self.property, self.reason = subject, property, reason
        super().__init__(f"{subject} breaks the contract: {property}: {reason}")


def demand(condition: bool, reason: str) -> None:
    """Raise an `AssertionError` with this reason unless ``condition`` holds; it does not vanish under ``python -O``."""
    if not condition:
        raise AssertionError(reason)


def run_checks(subject: T, checks: Mapping[str, Callable[[T], None]]) -> None:
    """Run all checks of an object, in order, up to the first that fails.

    Args:
        subject: The object that is checked.
        checks: The name of each property and the function that raises unless the object has it.

    Raises:
        ContractError: The object lacks a property, or raised an error of its own in the check of it.
    """
    for name, check in checks.items():
        try:
            check(subject)
        except ContractError:
            raise
        except AssertionError as error:
            raise ContractError(_shown(subject), name, " ".join(str(error).split())) from error
        except Exception as error:  # whatever foreign code raises is the finding
            reason = f"it raised {type(error).__name__}: {' '.join(str(error).split())}"
            raise ContractError(_shown(subject), name, reason) from error


def _shown(subject: object) -> str:
    try:
        return repr(subject)
    except Exception:  # a class whose repr fails is told by its name
        return type(subject).__name__
