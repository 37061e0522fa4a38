"""The command line: `r2d2net --help`.

Exit codes: 0 done; 1 the work failed or was interrupted; 2 the input cannot be used. Either of the latter is one line
on standard error.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Callable
from inspect import cleandoc
from typing import Annotated, Any, NoReturn

import typer

import r2d2net
from r2d2net.cli import check_commands, data_sets, elicit_command, export_command
from r2d2net.cli.error_lines import as_option, command_of, usage_line
from r2d2net.cli.paper_commands import add_paper_commands
from r2d2net.errors import DivergenceError, Interrupted, R2D2NetError, RankError, UnvouchedWarning
from r2d2net.tables import commands as table_commands

# typer brings its own copy of click or uses the installed one, depending on its version
UsageError: type[Any] = typer.BadParameter.__mro__[1]
Abort: type[Any] = typer.Abort
INTERRUPTED = 130  # how newer versions of typer report a KeyboardInterrupt
FULL = (errno.ENOSPC, errno.EDQUOT)

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Bayesian neural networks with shrinkage priors.",
)
app.add_typer(table_commands.app)
app.add_typer(elicit_command.app)
app.add_typer(export_command.app)
app.add_typer(check_commands.app, name="check")
app.add_typer(data_sets.app, name="data")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"r2d2net {r2d2net.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Bayesian neural networks with shrinkage priors."""


def reflowed(text: str) -> str:
    """Join the lines of each paragraph of a help text, which the terminal breaks anew.

    Args:
        text: The text of a docstring.

    Returns:
        The text with one line for each paragraph.

    >>> reflowed("One\\nline.\\n\\nThe\\nother.")
    'One line.\\n\\nThe other.'
    """
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in cleandoc(text).split("\n\n"))


def _reflow_help() -> None:
    for group in (app, table_commands.app, elicit_command.app, export_command.app, check_commands.app, data_sets.app):
        for command in group.registered_commands:
            command.help = command.help or reflowed((command.callback and command.callback.__doc__) or "")


add_paper_commands(app)
_reflow_help()
COMMANDS: Any = typer.main.get_command(app)


def main() -> None:
    """Entry point of the `r2d2net` command."""
    words = sys.argv[1:] or ["--help"]
    with warnings.catch_warnings():
        warnings.showwarning = _warning_printer(warnings.showwarning, quiet="--quiet" in words)
        _run(words)


def _run(words: list[str]) -> NoReturn:
    try:
        code = app(words, standalone_mode=False)
        sys.stdout.flush()
    except UsageError as error:
        _fail(f"{usage_line(error, words)}; see `{_path(error.ctx)} --help`", 2)
    except BrokenPipeError:  # whoever reads our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (R2D2NetError, OSError) as error:
        failed = isinstance(error, (DivergenceError, Interrupted, RankError)) or is_full(error)
        message = (
            error.render(as_option(command_of(COMMANDS, words))) if isinstance(error, R2D2NetError) else str(error)
        )
        _fail(message, 1 if failed else 2)
    except MemoryError:
        _fail("there is not enough memory: use fewer rows or draws, or a smaller network", 1)
    except (KeyboardInterrupt, Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        _fail("interrupted", 1)
    sys.exit(code if isinstance(code, int) else 0)


def _warning_printer(shown: Callable[..., None], *, quiet: bool) -> Callable[..., None]:
    """Return a printer of warnings that says of folders of older versions in one note, whatever their number."""
    said = quiet

    def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
        nonlocal said
        if not issubclass(category, UnvouchedWarning):
            shown(message, category, *where)
        elif not said:
            said = True
            typer.echo(f"note: {message}", err=True)

    return show


def _path(context: Any) -> str:
    """The command that a context of click belongs to, as the user typed it."""
    return "r2d2net" if context is None or context.parent is None else f"{_path(context.parent)} {context.info_name}"


def is_full(error: BaseException | None) -> bool:
    """Whether a full disk is behind an error: no argument is wrong then."""
    return error is not None and (getattr(error, "errno", None) in FULL or is_full(error.__cause__))


def _fail(message: str, code: int) -> NoReturn:
    """One line on standard error, whatever letters are in it."""
    line = " ".join(message.split()).encode("utf-8", "backslashreplace").decode()
    typer.echo(f"error: {line}", err=True)
    sys.exit(code)
