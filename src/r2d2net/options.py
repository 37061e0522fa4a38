"""Options that all commands have."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output; notes on standard error.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors, and JSON if asked for.")]
AnySeed = Annotated[  # for scripts that give every command one
    int, typer.Option("--seed", min=0, max=2**32 - 1, help="Nothing here is random: every seed gives the same.")
]
