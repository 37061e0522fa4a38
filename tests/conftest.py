"""Tests run side by side in several processes: one torch thread each, and never the global random state."""

import torch

torch.set_num_threads(1)
