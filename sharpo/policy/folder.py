"""Hugging Face model folders: read the config with clear errors, write config and weights, silence progress bars."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from sharpo.errors import DataError

WEIGHTS = "model.safetensors"
HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"


@contextmanager
def no_progress() -> Iterator[None]:
    """Silence transformers' progress bars inside the block."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def read_config(path: str, remedy: str = "set model.path to a folder with config.json, or to a hub id") -> Any:
    """Return the transformers config of a folder or hub id.

    Raises:
        DataError: the path holds no model that transformers knows.
    """
    from transformers import AutoConfig

    looks_local = path.startswith((".", "/", "~")) or path.count("/") != 1
    if looks_local and not (Path(path).expanduser() / "config.json").is_file():
        raise DataError(f"model.path={path!r} holds no model (no config.json): {remedy}")
    try:
        return AutoConfig.from_pretrained(os.path.expanduser(path), trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"model.path={path!r} cannot be read ({_first_line(error)}): {remedy}") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def write_folder(folder: str | Path, config: Any, tensors: Mapping[str, Tensor]) -> None:
    """Write config.json and model.safetensors; a tied head is stored once, as transformers does."""
    from safetensors.torch import save_file

    kept = {name: x.detach().to("cpu").contiguous() for name, x in tensors.items()}
    if config.tie_word_embeddings:
        kept.pop(HEAD, None)
    Path(folder).mkdir(parents=True, exist_ok=True)
    config.save_pretrained(folder)
    save_file(kept, Path(folder) / WEIGHTS, metadata={"format": "pt"})
