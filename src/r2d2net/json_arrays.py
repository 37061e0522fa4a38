"""Arrays of numbers as one line of text in JSON, where an indented list would take a line for each number.

>>> pack(np.array([[0.5, 1.23456], [-2e-7, 0.0]]), digits=3)
{'shape': [2, 2], 'values': '0.5 1.23 -2e-07 0'}
>>> unpack({'shape': [2, 2], 'values': '0.5 1.23 -2e-07 0'})[0].tolist()
[0.5, 1.23]
"""

from __future__ import annotations

from typing import Any

import numpy as np


def pack(values: Any, digits: int = 4) -> dict[str, Any]:
    """Convert an array of numbers to a dict for JSON.

    Args:
        values: Array, tensor or nested list of numbers.
        digits: Number of significant digits to keep.

    Returns:
        The shape, and the values as text.
    """
    array = np.asarray(values, dtype=np.float64)
    return {"shape": list(array.shape), "values": " ".join(f"{value:.{digits}g}" for value in array.ravel())}


def unpack(packed: dict[str, Any]) -> np.ndarray:
    """Convert the result of `pack` back to an array.

    Args:
        packed: Shape and values.

    Returns:
        The array, float64.
    """
    return np.array([float(word) for word in packed["values"].split()]).reshape(packed["shape"])
