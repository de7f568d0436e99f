"""Guests in the trainer's process: what an engine must leave as it found it, and where the process stands."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import random
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def kept_random_state() -> Iterator[None]:
    """Put torch's global random states back after the block."""
    on_cpu = torch.get_rng_state()
    on_gpu = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None
    try:
        yield
    finally:
        torch.set_rng_state(on_cpu)
        if on_gpu is not None:
            torch.cuda.set_rng_state(on_gpu)


@contextmanager
def undisturbed(environment: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables inside the block; restore them, every global random state and torch's thread setter.

    Args:
        environment: variables that hold inside the block only.
    """
    saved = {name: os.environ.get(name) for name in environment}
    python_state, numpy_state = random.getstate(), np.random.get_state()
    set_num_threads, threads, dtype = torch.set_num_threads, torch.get_num_threads(), torch.get_default_dtype()
    os.environ.update(environment)
    try:
        with kept_random_state(), warnings.catch_warnings():
            # vLLM looks at every name of torch.distributed
            warnings.filterwarnings("ignore", "`torch.distributed.reduce_op` is deprecated", FutureWarning)
            yield
    finally:
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        torch.set_num_threads = set_num_threads
        torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)


class Hush(logging.Filter):
    """Drops log records whose message begins with one of the given texts."""

    def __init__(self, beginnings: Sequence[str]) -> None:
        super().__init__()
        self.beginnings = tuple(beginnings)

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether the record is kept."""
        return not str(record.msg).startswith(self.beginnings)


def hush(logger: str, beginnings: Sequence[str], level: str) -> None:
    """Show what a logger says from ``level`` on, on stderr, without known chatter."""
    target = logging.getLogger(logger)
    if not target.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(f"{logger}: %(levelname)s %(message)s"))
        target.addHandler(handler)
        target.setLevel(level)
        target.propagate = False
    for handler in target.handlers:
        if not any(isinstance(known, Hush) for known in handler.filters):
            handler.addFilter(Hush(beginnings))


def launch_environment() -> dict[str, str]:
    """Return the launcher's variables of this rank, for a guest that reads them."""
    rank = torch.distributed.get_rank()
    on_gpu = torch.cuda.is_available()
    local = torch.cuda.current_device() if on_gpu else int(os.environ.get("LOCAL_RANK", rank))
    return {"RANK": str(rank), "LOCAL_RANK": str(local)}


def torchvision_hint() -> str:
    """Return a remedy when torchvision is what breaks an import of transformers, else nothing."""
    if importlib.util.find_spec("torchvision") is None:
        return ""
    try:
        importlib.import_module("torchvision")
    except (ImportError, RuntimeError, OSError, AttributeError):
        return "torchvision is installed but broken: `pip uninstall torchvision torchaudio torchcodec`; else "
    return ""
