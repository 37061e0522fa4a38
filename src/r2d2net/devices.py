"""Numbers between the host and an accelerator: when the host waits for them, and how it does not."""

from __future__ import annotations

import torch
from torch import Tensor


def waits(device: torch.device) -> bool:
    """Tell whether reading a number of this device makes the host wait until all work before it is done.

    Args:
        device: The device.

    Returns:
        Whether it does: on every device but the CPU.
    """
    return device.type != "cpu"


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """Move a tensor to a device without waiting: to a GPU from memory that the system may not swap out.

    Args:
        tensor: The tensor.
        device: The device.

    Returns:
        The tensor there.
    """
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
