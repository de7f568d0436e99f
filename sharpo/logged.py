"""What a run tells its loggers about itself: the resolved configuration, the method's knobs, and no secret."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from sharpo.errors import ConfigError

SECRET = re.compile(r"(^|_)(key|token|secret|password|passwd|credentials?)$", re.IGNORECASE)
SHORTEST = 6  # a shorter value is no secret, and would be found inside ordinary words


def logged_config(plain: Mapping[str, Any], algorithm: Any) -> dict[str, Any]:
    """Return the configuration without secrets, and under ``method`` every knob of the method, defaults included.

    Args:
        plain: the resolved configuration as plain values.
        algorithm: the built method, a dataclass.
    """
    knobs = asdict(algorithm) if is_dataclass(algorithm) and not isinstance(algorithm, type) else {}
    return {**without_secrets(plain), "method": {"name": type(algorithm).__name__, **without_secrets(knobs)}}


def without_secrets(node: Any, environment: Mapping[str, str] | None = None) -> Any:
    """Return plain values in which a secret is replaced by the name of where it came from.

    A secret is the value of an environment variable, or the text under a key, whose name ends in key, token, secret,
    password or credentials.

    Args:
        node: nested dicts and lists of plain values.
        environment: variables; None = the process's own.

    Example:
        >>> without_secrets({"hub_token": "abc", "url": "https://me:s3cret-s@x.org"}, {"MY_KEY": "s3cret-s"})
        {'hub_token': '<hub_token>', 'url': 'https://me:<MY_KEY>@x.org'}
    """
    variables = os.environ if environment is None else environment
    secrets = {value: name for name, value in variables.items() if SECRET.search(name) and len(value) >= SHORTEST}
    return _hide(node, secrets)


def _hide(node: Any, secrets: Mapping[str, str]) -> Any:
    if isinstance(node, Mapping):
        return {
            key: f"<{key}>" if value and isinstance(value, str) and SECRET.search(str(key)) else _hide(value, secrets)
            for key, value in node.items()
        }
    if isinstance(node, list | tuple):
        return [_hide(value, secrets) for value in node]
    if isinstance(node, str):
        for value, name in secrets.items():
            node = node.replace(value, f"<{name}>")
    return node


def tell(loggers: Iterable[Any], settings: dict[str, Any]) -> None:
    """Give every logger the run's settings, which starts it.

    Raises:
        ConfigError: Weights & Biases refuses to start.
    """
    for logger in loggers:
        try:
            logger.log_hyperparams(settings)
        except Exception as error:
            if not type(error).__module__.startswith(("wandb", "pydantic")):
                raise
            reason = " ".join(str(error).split())[:200]
            raise ConfigError(
                f"logger=wandb cannot start ({reason}): log in once with `wandb login`, set WANDB_MODE=offline, or "
                "choose logger=csv"
            ) from error
