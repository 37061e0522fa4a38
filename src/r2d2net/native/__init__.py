"""Optional kernels in C for large networks on the CPU: what `compile="native"` uses (see `library`)."""
