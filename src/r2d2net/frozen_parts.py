"""The frozen parameters of a network: one copy in memory, and a fingerprint in place of their values in files.

A copy of a network shares the memory of its frozen parameters with the original, so that a backbone of gigabytes is
there once however many models and trainers are made of it. Since an in-place change of the original would change the
copies too, every use asks torch's version counters whether there was one. (Writing through ``parameter.data`` escapes
them.)
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn

from r2d2net.errors import ParameterError
from r2d2net.parameter_roles import results_of_graphs


def copy_sharing(net: nn.Module, names: Collection[str]) -> nn.Module:
    """Copy a network; the copy shares the memory of some of its parameters.

    Args:
        net: The network.
        names: Names of the parameters that are shared.

    Returns:
        The copy. Shared parameters require no gradient in it.
    """
    memo = results_of_graphs(net)
    for name, parameter in net.named_parameters():
        if name in names and type(parameter) is nn.Parameter:
            memo[id(parameter)] = nn.Parameter(parameter.detach(), requires_grad=False)
    return copy.deepcopy(net, memo)


class FrozenParts:
    """The frozen parameters of one network, watched for changes.

    Args:
        net: The network.
        names: Names of its frozen parameters.
    """

    def __init__(self, net: nn.Module, names: Collection[str]) -> None:
        self.tensors: Mapping[str, Tensor] = {name: net.get_parameter(name) for name in names}
        self._versions = self._now()
        self._digest: str | None = None

    def _now(self) -> dict[str, int]:
        return {name: 0 if tensor.is_inference() else tensor._version for name, tensor in self.tensors.items()}

    def __getstate__(self) -> dict[str, object]:
        return {"tensors": self.tensors, "_versions": None, "_digest": self._digest}  # counters belong to a process

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._versions = self._now()

    def require_unchanged(self) -> None:
        """Refuse parameters that were changed in place since the network was copied.

        Raises:
            ParameterError: If one was changed.
        """
        now = self._now()
        changed = [name for name, version in now.items() if version != self._versions[name]]
        if not changed:
            return
        if self._digest is None or self._digest != self._computed():  # not the same values written again
            problem = f"had its frozen parameter {changed[0]!r} changed in place, whose memory the model shares"
            fix = "give BayesianModel a copy.deepcopy of it, or make the model anew"
            raise ParameterError(problem, argument="net", fix=fix)
        self._versions = now

    def replace(self, values: Mapping[str, Tensor]) -> None:
        """Give the parameters other values, in memory of their own.

        Args:
            values: The values by name.
        """
        for name, value in values.items():
            parameter = self.tensors[name]
            parameter.data = value.to(parameter.device).reshape(parameter.shape)
        self._versions, self._digest = self._now(), None

    def fingerprint(self) -> str:
        """Return a digest of names, shapes and values, the same on every device.

        Returns:
            The digest, 64 hexadecimal digits.
        """
        self.require_unchanged()
        if self._digest is None:
            self._digest = self._computed()
        return self._digest

    def _computed(self) -> str:
        digest = hashlib.sha256()
        for name in sorted(self.tensors):
            tensor = self.tensors[name].detach()
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
            flat = tensor.cpu().contiguous().reshape(-1)
            flat = flat if flat.stride() == (1,) else flat.clone(memory_format=torch.contiguous_format)
            digest.update(flat.view(torch.uint8).numpy().data)
        return digest.hexdigest()
