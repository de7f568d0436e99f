"""Hosts environments by slot: in the calling process, or as the main loop of a worker process that a pool started."""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Literal

from sharpo.env import Observed, TextEnv
from sharpo.episode import Outcome, Task
from sharpo.errors import SharpoError
from sharpo.protocols import EnvEvent

MESSAGE_CHARS = 500


@dataclass(frozen=True, slots=True)
class Command:
    """One thing for a slot to do.

    Args:
        kind: ``reset``, ``step``, ``release``, or ``rebuild`` (begin the task again and replay ``actions``).
        slot: which environment.
        task: for ``reset`` and ``rebuild``.
        informed: the oracle may use what the agent cannot see; None = nobody asks it.
        action: for ``step``.
        actions: for ``rebuild``.
    """

    kind: Literal["reset", "step", "release", "rebuild"]
    slot: int
    task: Task | None = None
    informed: bool | None = False
    action: str | None = None
    actions: Sequence[str | None] = ()


def failed(slot: int, failure: str, message: str) -> EnvEvent:
    """Return the event of an environment that hung, raised or died: its episode ends as truncated."""
    verdict = Outcome(False, 0.0, terminated=False, truncated=True, reason=failure)
    return EnvEvent(slot, Observed(""), truncated=True, outcome=verdict, failure=failure, message=message)


class EnvHost:
    """Environments by slot; one that raises gives an ``env_error`` event and is thrown away.

    Args:
        make_env: makes one environment.
    """

    def __init__(self, make_env: Callable[[], TextEnv]) -> None:
        self._make_env = make_env
        self._live: dict[int, TextEnv] = {}
        self._idle: list[TextEnv] = [make_env()]

    def handle(self, command: Command) -> EnvEvent:
        """Do one command and return its event (of ``release`` and ``rebuild`` too, then to be dropped)."""
        slot = command.slot
        try:
            return self._do(command)
        except Exception as error:  # noqa: BLE001 - whatever a foreign environment raises ends its own episode only
            self._live.pop(slot, None)
            return failed(slot, "env_error", f"{type(error).__name__}: {error}"[:MESSAGE_CHARS])

    def _do(self, command: Command) -> EnvEvent:
        slot = command.slot
        if command.kind == "release":
            env = self._live.pop(slot, None)
            if env is not None:
                self._idle.append(env)
            return EnvEvent(slot, Observed(""))
        if command.kind == "step":
            env = self._live.get(slot)
            if env is None:
                raise RuntimeError(f"slot {slot} was stepped before it was reset")
            return self._step(env, slot, command.action)
        env = self._live.pop(slot, None) or (self._idle.pop() if self._idle else self._make_env())
        text, info = env.reset(options={"task": command.task, "informed_oracle": command.informed})
        self._live[slot] = env
        event = EnvEvent(slot, Observed(text, tuple(info["admissible"]), info["oracle"]))
        for action in command.actions:
            event = self._step(env, slot, action)
        return event

    @staticmethod
    def _step(env: TextEnv, slot: int, action: str | None) -> EnvEvent:
        text, reward, terminated, truncated, info = env.step(action)
        return EnvEvent(
            slot,
            Observed(text, tuple(info["admissible"]), info["oracle"]),
            reward=float(reward),
            penalty=float(info["penalty"]),
            invalid=bool(info["invalid"]),
            terminated=terminated,
            truncated=truncated,
            outcome=env.outcome() if terminated or truncated else None,
        )


def _exit_with_parent(handle: int) -> None:
    """Leave as soon as the pool's end of the line is closed, even in the middle of a step that never returns."""
    line = select.poll()
    line.register(handle, 0)
    line.poll()
    os._exit(0)


def main(handle: int) -> None:
    """Serve commands from an inherited socket until the pool closes it."""
    os.dup2(2, 1)  # what an environment prints must not end up in the parent's standard output
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, args=(handle,), daemon=True).start()
    connection = Connection(handle)
    path, blob = connection.recv()
    sys.path[:] = path
    try:
        host = EnvHost(pickle.loads(blob))  # noqa: S301 - from the process that started this one
    except Exception as error:  # noqa: BLE001 - told to the pool, which raises it
        kind = type(error).__name__
        connection.send((kind if isinstance(error, SharpoError) else None, str(error) or kind))
        return
    connection.send(None)
    try:
        while True:
            for command in connection.recv():
                connection.send(host.handle(command))
    except (EOFError, OSError):  # the pool closed the line
        return


if __name__ == "__main__":
    main(int(sys.argv[1]))
