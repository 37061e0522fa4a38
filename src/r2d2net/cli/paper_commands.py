"""The commands that reproduce the paper, by name and summary; the rest of each is imported when it is used.

`r2d2net --help` lists them, and neither that nor any other command imports `r2d2net.paper`.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

SUMMARIES = {
    "priors": "Compare the priors: densities at zero and in the tail, and the rate table, theory beside measurement.",
    "demo": "Fit a real table beside the usual models, and R2D2-Net to scenario 2: errors, inputs kept, a figure.",
    "reproduce": "Reproduce a table or figure of the paper, for example `r2d2net reproduce simulation --scale smoke`.",
    "report": "Write the reports of finished or unfinished reproductions from their result files, and an index of "
    "them.",
}


class PaperCommand(TyperCommand):
    """A command that is defined in `r2d2net.paper.cli`, of which only name and summary are known before it is used."""

    @property
    def definition(self) -> Any:
        """The command with its options, imported on first use."""
        from r2d2net.paper.cli import app

        commands: Any = typer.main.get_command(app)
        return commands.commands[self.name]

    @property
    def params(self) -> list[Any]:
        """The arguments and options of the definition."""
        return self.definition.params

    @params.setter
    def params(self, given: list[Any]) -> None:
        """Ignore the empty list that the base class assigns."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the arguments of the command, and hand its invocation over to the definition."""
        return self.definition.make_context(info_name, args, parent, **extra)


def add_paper_commands(app: typer.Typer) -> None:
    """Register every command of the paper by its name and summary.

    Args:
        app: The application whose help then lists them.
    """
    for name, summary in SUMMARIES.items():
        app.command(name, cls=PaperCommand, help=summary)(_defined_elsewhere)


def _defined_elsewhere() -> None:
    """Stand where typer wants a function; the definition's own is called in its place."""
