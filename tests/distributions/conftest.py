"""One thread: the tests' tensors are small, and a cheap test should stay cheap on a busy machine."""

import torch

torch.set_num_threads(1)
