"""Errors meant for the user: one message that names the field, the value and the remedy. The CLI prints them bare."""

from __future__ import annotations

import os
import sys
import traceback
from typing import NoReturn


class SharpoError(Exception):
    """Base of all errors that the user can mend; its message stands alone."""


class ConfigError(SharpoError):
    """A setting is missing, misspelt, out of range, or cannot be honoured by the chosen parts."""


class DataError(SharpoError):
    """Data, a model or a checkpoint is absent, empty or of another kind."""


class EngineError(SharpoError):
    """A rollout engine cannot be started or cannot do what was asked."""


class GateError(SharpoError):
    """Engine and trainer disagree about log-probabilities: the weights inside the engine are not the trainer's."""


def in_one_line(message: str) -> str:
    r"""Return a message without line breaks, and without Hydra's pointer to its grammar.

    Example:
        >>> in_one_line("Error parsing override 'a=[1'\n   ^\nSee https://hydra.cc/docs for details")
        "Error parsing override 'a=[1'"
    """
    lines = [line.strip() for line in message.splitlines()]
    return " ".join(line for line in lines if line.strip("^ ") and not line.startswith("See https://hydra.cc"))


def end(error: BaseException) -> NoReturn:
    """Print an error as one line on stderr, after its traceback when ``SHARPO_DEBUG=1``, and exit with code 2.

    Ctrl-C is no error: one line, and code 130.
    """
    if isinstance(error, KeyboardInterrupt):
        print("stopped by Ctrl-C", file=sys.stderr)  # noqa: T201
        raise SystemExit(130) from None
    if os.environ.get("SHARPO_DEBUG") == "1":
        traceback.print_exc()
    print(f"error: {in_one_line(str(error))}", file=sys.stderr)  # noqa: T201
    raise SystemExit(2) from None
