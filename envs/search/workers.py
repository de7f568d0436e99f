"""Processes that make files of texts; they never import the caller's script, so it needs no main guard."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

from sharpo.errors import DataError, SharpoError


class Analysts:
    """A pool: each thread feeds one process of its own.

    Args:
        workers: processes.
        work: ``module:function``, called there with the path of a file to write and what to make it of.
    """

    def __init__(self, workers: int, work: str = "sharpo.envs.search.build:write_part") -> None:
        self._work = work
        self._threads = ThreadPoolExecutor(workers)
        self._own = threading.local()
        self._started: list[subprocess.Popen[bytes]] = []

    def submit(self, path: Path, made_of: Any) -> Future[None]:
        """Begin to write a file in a process."""
        return self._threads.submit(self._feed, path, made_of)

    def __enter__(self) -> Analysts:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            self._stop()
        self._threads.shutdown(cancel_futures=True)
        self._stop()

    def _stop(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()

    def _feed(self, path: Path, made_of: Any) -> None:
        process: subprocess.Popen[bytes] | None = getattr(self._own, "process", None)
        if process is None:
            command = [sys.executable, "-m", "sharpo.envs.search.workers", self._work]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
            self._own.process = process
            self._started.append(process)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump((path, made_of), process.stdin)
            process.stdin.flush()
            problem = pickle.load(process.stdout)  # noqa: S301 - from our own process
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            problem = f"it died with exit code {_exit_code(process)}, most often for want of memory"
        if problem is not None:
            raise DataError(
                f"a process that worked for {path.parent.parent} failed ({problem}): run the build again, "
                "it goes on where it stopped; fewer workers need less memory"
            )


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """Return the exit code of a process that hung up; None when it lives on for another 5 seconds."""
    try:
        return process.wait(5)
    except subprocess.TimeoutExpired:
        return None


def main(work: str) -> None:
    """Write what comes in until there is no more."""
    module, _, name = work.partition(":")
    write = getattr(import_module(module), name)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing that is printed may get into the answers
    while True:
        try:
            path, made_of = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one
        except EOFError:
            return
        problem = None
        try:
            write(path, made_of)
        except (OSError, SharpoError) as error:
            problem = str(error)
        pickle.dump(problem, answers)
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
