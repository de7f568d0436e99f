"""Sizes that cannot go together: windows, turns and rows, and the groups that processes share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sharpo.errors import ConfigError
from sharpo.typed import value_of


def check_shares(groups: int, devices: int, nodes: int) -> None:
    """Refuse groups that cannot be dealt evenly, before processes start; all devices of a machine (-1) are not counted.

    Raises:
        ConfigError: naming the groups and the processes.
    """
    world = devices * nodes
    if devices > 0 and groups % world:
        raise ConfigError(
            f"data.sizes.groups={groups} cannot be shared by {world} processes (trainer.devices={devices}, "
            f"trainer.num_nodes={nodes}); choose a multiple of {world}"
        )


def check_room(cfg: Mapping[str, Any]) -> None:
    """Refuse a window that the model cannot see, a turn without room for its prompt, and a row shorter than a turn.

    Raises:
        ConfigError: naming both sizes.
    """
    budgets, longest = cfg["data"]["budgets"], cfg["data"]["sizes"].get("max_row")
    turn = value_of(budgets, "turn_tokens")
    window, positions = cfg["engine"].get("max_context"), model_positions(cfg["model"]["path"])
    if window is not None and positions is not None and window > positions:
        raise ConfigError(f"engine.max_context={window}: the model has {positions} positions; choose at most as many")
    context = value_of(budgets, "context")
    limits = {"engine.max_context": window, "data.budgets.context": context, "positions": positions}
    for name, limit in limits.items():
        if turn is not None and limit is not None and turn >= limit:
            place = f"the model's {limit} positions" if name == "positions" else f"{name}={limit}"
            raise ConfigError(f"data.budgets.turn_tokens={turn} leaves no room for a prompt in {place}: lower it")
    if longest is not None and turn is not None and longest < turn:
        raise ConfigError(
            f"data.sizes.max_row={longest} is below data.budgets.turn_tokens={turn}: a row holds at least one turn; "
            "raise the first or lower the second"
        )


def model_positions(path: Any) -> int | None:
    """Return how many positions a model has; None where it is not on this machine, or stretches its rotations.

    Args:
        path: the setting: a model to build, a folder, or a name on the hub, for which nothing is downloaded.
    """
    if isinstance(path, Mapping):
        return value_of(path, "max_positions")
    try:
        config = json.loads((Path(path).expanduser() / "config.json").read_text(encoding="utf-8"))
        rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
        stretched = rope.get("rope_type", rope.get("type", "default")) not in ("default", "llama3")
    except (OSError, ValueError, TypeError, AttributeError):  # said where the model is read
        return None
    return None if stretched else config.get("max_position_embeddings")
