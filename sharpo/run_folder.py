"""The folder of a run: made, and claimed by one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from sharpo.errors import DataError
from sharpo.rollout import store

CLAIM = ".claim"


def make(run: Path, *, fresh: bool = False) -> None:
    """Make a run's folder.

    Args:
        run: the folder.
        fresh: the run begins anew, so the folder must not hold another one's checkpoints.

    Raises:
        DataError: when it cannot be written, or holds another run.
    """
    store.check_folder(run, "paths.run")
    if fresh and any((run / "checkpoints").glob("*.ckpt")):
        raise DataError(
            f"paths.run={run} holds the checkpoints of another run: choose another folder, or go on with that run by "
            "ckpt=auto"
        )


@contextlib.contextmanager
def claimed(run: Path, *, fresh: bool, first: bool) -> Iterator[None]:
    """Make a run's folder and keep every other training out of it until the run ends, however it ends.

    Who is stopped by SIGTERM or Ctrl-C is told how to go on, and exits with 143 or 130: never as if it had finished.

    Args:
        run: the folder.
        fresh: see :func:`make`.
        first: this process is the run's first; the others do nothing here.

    Raises:
        DataError: see :func:`make`; or a run that is still alive has the folder.
    """
    if not first:
        with _stopped(None):
            yield
        return
    make(run)
    with (run / CLAIM).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(f"paths.run={run}: a run that is still alive has this folder: choose another") from None
        except OSError as error:
            print(f"{run} cannot be locked ({error.strerror}): let no second run use it", file=sys.stderr)  # noqa: T201
        make(run, fresh=fresh)  # looked at when no other run can write there
        with _stopped(run):
            yield


def _obey(signum: int, frame: object) -> NoReturn:
    """End at once: the trainer alone would look at the signal at the end of a batch, a collection later."""
    del signum, frame
    raise SystemExit


@contextlib.contextmanager
def _stopped(run: Path | None) -> Iterator[None]:
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, _obey) if main else None
    try:
        yield
    except SystemExit as ended:  # the trainer's own: without a code after SIGTERM, with 1 after Ctrl-C
        if ended.code not in (None, 1):
            raise
        how, code = ("SIGTERM", 143) if ended.code is None else ("Ctrl-C", 130)
        if run is not None:
            last = run / "checkpoints" / "last.ckpt"
            go_on = f"go on with ckpt={last}" if last.is_file() else "there is no checkpoint yet"
            print(f"stopped by {how}: {go_on}", file=sys.stderr)  # noqa: T201
        raise SystemExit(code) from None
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
