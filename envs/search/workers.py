"""Processes that analyse documents; they never import the caller's script, so it needs no main guard."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from sharpo.errors import DataError


class Analysts:
    """A pool: each thread feeds one process of its own.

    Args:
        workers: processes.
    """

    def __init__(self, workers: int) -> None:
        self._threads = ThreadPoolExecutor(workers)
        self._own = threading.local()
        self._started: list[subprocess.Popen[bytes]] = []

    def submit(self, path: Path, texts: Sequence[str]) -> Future[None]:
        """Begin :func:`sharpo.envs.search.build.write_part` in a process."""
        return self._threads.submit(self._feed, path, texts)

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

    def _feed(self, path: Path, texts: Sequence[str]) -> None:
        process: subprocess.Popen[bytes] | None = getattr(self._own, "process", None)
        if process is None:
            command = [sys.executable, "-m", "sharpo.envs.search.workers"]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
            self._own.process = process
            self._started.append(process)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump((path, texts), process.stdin)
            process.stdin.flush()
            problem = pickle.load(process.stdout)  # noqa: S301 - from our own process
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            problem = f"it died with exit code {process.poll()}, most often for want of memory"
        if problem is not None:
            raise DataError(
                f"a process that analysed documents for {path.parent.parent} failed ({problem}): run the build again, "
                "it goes on where it stopped; fewer workers need less memory"
            )


def main() -> None:
    """Analyse what comes in until there is no more."""
    from sharpo.envs.search.build import write_part

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing that is printed may get into the answers
    while True:
        try:
            path, texts = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one
        except EOFError:
            return
        problem = None
        try:
            write_part(path, texts)
        except OSError as error:
            problem = str(error)
        pickle.dump(problem, answers)
        answers.flush()


if __name__ == "__main__":
    main()
