"""Many environments by slot: in this process, or on worker processes where one that hangs or dies fails alone."""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait

from sharpo import errors
from sharpo.env import TextEnv
from sharpo.episode import Task
from sharpo.errors import ConfigError, EngineError
from sharpo.protocols import EnvEvent
from sharpo.ranges import Count, Positive, checked
from sharpo.rollout.env_worker import Command, EnvHost, failed

WINDOW = 8
"""Commands a worker may hold unanswered; few, so that neither side ever blocks on a full pipe."""
START_TIMEOUT_S = 180.0
DEATHS_ALLOWED = 1
"""Worker deaths during a slot's own command that are put down to bad luck; one more and the slot fails."""
_HOMES_KEPT = 4096


class InlineEnvPool:
    """Environments in the calling process, in the order they were asked; no timeout.

    Args:
        make_env: makes one environment.
    """

    def __init__(self, make_env: Callable[[], TextEnv]) -> None:
        self._host = EnvHost(make_env)
        self._asked: deque[Command] = deque()

    def reset(self, slot: int, task: Task, *, informed_oracle: bool | None = False) -> None:
        """Begin a task in a slot; its event arrives through :meth:`poll`."""
        self._asked.append(Command("reset", slot, task, informed_oracle))

    def step(self, slot: int, action: str | None) -> None:
        """Apply an action in a slot; its event arrives through :meth:`poll`."""
        self._asked.append(Command("step", slot, action=action))

    def poll(self, timeout_s: float) -> list[EnvEvent]:  # noqa: ARG002 - the answers are made here and now
        """Do everything that was asked and return the answers."""
        events = []
        while self._asked:
            events.append(self._host.handle(self._asked.popleft()))
        return events

    def release(self, slot: int) -> None:
        """Say that a slot's episode is over."""
        self._asked = deque(command for command in self._asked if command.slot != slot)
        self._host.handle(Command("release", slot))

    def close(self) -> None:
        """Forget what was asked; idempotent."""
        self._asked.clear()


@dataclass(slots=True)
class _Slot:
    task: Task
    informed: bool | None
    actions: list[str | None] = field(default_factory=list)
    pending: Command | None = None
    begun: bool = False
    deaths: int = 0


class _Worker:
    """A worker process, the commands it holds and those that wait; answers come back in the order of the commands."""

    def __init__(self, blob: bytes) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", "sharpo.rollout.env_worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self.connection = Connection(ours.detach())
        self.connection.send((sys.path, blob))
        self.ready = False
        self.since = time.monotonic()
        self.held: deque[Command] = deque()
        self.waiting: deque[Command] = deque()

    def send(self) -> None:
        """Hand over waiting commands as one message, as far as the window allows."""
        count = min(WINDOW - len(self.held), len(self.waiting)) if self.ready else 0
        if count:
            if not self.held:
                self.since = time.monotonic()
            batch = [self.waiting.popleft() for _ in range(count)]
            self.held.extend(batch)
            self.connection.send(batch)

    def stop(self) -> None:
        """End the process now."""
        self.connection.close()
        self.process.kill()
        self.process.wait()


class ProcessEnvPool:
    """Environments on worker processes; every task lives on one worker, so what it loads is shared by its group.

    A worker that exceeds ``step_timeout_s`` on one command is replaced: the command's slot ends with ``env_timeout``,
    the other slots are rebuilt by replaying their actions. A worker that dies is replaced in the same way; the slot
    whose command was running is tried once more and then ends with ``env_error``.

    Args:
        make_env: makes one environment; picklable.
        workers: processes.
        step_timeout_s: seconds that one reset or step may take.

    Raises:
        ConfigError: a number is out of range or ``make_env`` cannot be pickled.
    """

    @checked("data.pool")
    def __init__(self, make_env: Callable[[], TextEnv], workers: Count = 2, step_timeout_s: Positive = 60.0) -> None:
        try:
            self._blob = pickle.dumps(make_env)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ConfigError(f"env pool: the environment factory cannot go to a worker process ({error})") from None
        self._timeout = step_timeout_s
        self._slots: dict[int, _Slot] = {}
        self._home: OrderedDict[str, int] = OrderedDict()
        self._workers = [_Worker(self._blob) for _ in range(workers)]
        self._finalize = weakref.finalize(self, _stop_all, self._workers)

    def reset(self, slot: int, task: Task, *, informed_oracle: bool | None = False) -> None:
        """Begin a task in a slot; its event arrives through :meth:`poll`."""
        if slot in self._slots:
            self.release(slot)
        self._slots[slot] = _Slot(task, informed_oracle)
        self._ask(Command("reset", slot, task, informed_oracle))

    def step(self, slot: int, action: str | None) -> None:
        """Apply an action in a slot; its event arrives through :meth:`poll`."""
        if slot not in self._slots:
            raise RuntimeError(f"env pool: slot {slot} was stepped before it was reset")
        self._ask(Command("step", slot, action=action))

    def poll(self, timeout_s: float) -> list[EnvEvent]:
        """Return the answers that are there; wait up to ``timeout_s`` for the first."""
        until = time.monotonic() + timeout_s
        while True:
            events = self._round(max(0.0, until - time.monotonic()))
            busy = any(worker.held or worker.waiting for worker in self._workers)
            if events or not busy or time.monotonic() >= until:
                return events

    def release(self, slot: int) -> None:
        """Say that a slot's episode is over."""
        known = self._slots.pop(slot, None)
        if known is not None:
            self._worker(known.task).waiting.append(Command("release", slot))

    def close(self) -> None:
        """Stop every worker; idempotent."""
        self._finalize()
        self._slots.clear()

    # -- inside ----------------------------------------------------------------------------------------------------
    def _worker(self, task: Task) -> _Worker:
        if not self._workers:
            raise EngineError("env pool: it is closed")
        if task.id not in self._home:
            loads = [0] * len(self._workers)
            for slot in self._slots.values():
                if slot.task.id in self._home:
                    loads[self._home[slot.task.id]] += 1
            self._home[task.id] = loads.index(min(loads))
            if len(self._home) > _HOMES_KEPT:
                used = {slot.task.id for slot in self._slots.values()}
                self._home.pop(next((name for name in self._home if name not in used), ""), None)
        return self._workers[self._home[task.id]]

    def _ask(self, command: Command) -> None:
        slot = self._slots[command.slot]
        worker = self._worker(slot.task)
        slot.pending = command
        worker.waiting.append(command)

    def _round(self, timeout_s: float) -> list[EnvEvent]:
        """Hand out commands, wait for answers, read all that are there, then look for workers that hang."""
        for index, worker in enumerate(self._workers):
            try:
                worker.send()
            except OSError:
                return self._replace(index)
        busy = {worker.connection: index for index, worker in enumerate(self._workers) if worker.held or worker.waiting}
        if not busy:
            return []
        now = time.monotonic()
        patience = min(self._due(self._workers[index]) for index in busy.values()) - now
        events: list[EnvEvent] = []
        for connection in wait(list(busy), timeout=max(0.0, min(timeout_s, patience))):
            events += self._read(busy[connection])  # pyright: ignore[reportArgumentType]
        if not events:
            for index in busy.values():
                if time.monotonic() > self._due(self._workers[index]) and not self._workers[index].connection.poll():
                    events += self._replace(index, hung=True)
        return events

    def _due(self, worker: _Worker) -> float:
        return worker.since + (self._timeout if worker.ready else START_TIMEOUT_S)

    def _read(self, index: int) -> list[EnvEvent]:
        worker, events = self._workers[index], []
        try:
            while worker.connection.poll():
                answer = worker.connection.recv()
                worker.since = time.monotonic()
                if not worker.ready:
                    self._started(worker, answer)
                else:
                    events += self._answered(worker.held.popleft(), answer)
                worker.send()
        except (EOFError, OSError):
            events += self._replace(index)
        return events

    def _started(self, worker: _Worker, answer: tuple[str | None, str] | None) -> None:
        if answer is not None:
            kind, message = answer
            self.close()
            raise getattr(errors, kind)(message) if kind else ConfigError(f"the environment cannot be made: {message}")
        worker.ready = True

    def _answered(self, command: Command, event: EnvEvent) -> list[EnvEvent]:
        slot = self._slots.get(command.slot)
        if slot is None or command.kind == "release":
            return []
        if command.kind == "rebuild":
            if event.failure is None or command.task is not slot.task:
                return []
        elif command is not slot.pending:
            return []
        slot.pending = None
        if event.failure is not None:
            self._drop(command.slot)
        elif command.kind == "step":
            slot.actions.append(command.action)
        slot.begun = True
        return [event]

    def _drop(self, number: int) -> None:
        slot = self._slots.pop(number)
        worker = self._worker(slot.task)
        worker.waiting = deque(command for command in worker.waiting if command.slot != number)

    def _replace(self, index: int, hung: bool = False) -> list[EnvEvent]:
        """Start a new worker in place of one that hangs or died, and bring its other slots back to where they were."""
        old = self._workers[index]
        old.stop()
        if not old.ready:
            self.close()
            raise EngineError(
                f"env pool: a worker {'did not start' if hung else 'died while it started'} "
                f"(exit code {old.process.returncode}); its own output above says why"
            )
        events, culprit = [], old.held[0].slot if old.held else None
        if culprit in self._slots:
            slot = self._slots[culprit]
            slot.deaths += 1
            if hung:
                events.append(failed(culprit, "env_timeout", f"no answer within {self._timeout:g} s"))
            elif slot.deaths > DEATHS_ALLOWED:
                message = f"the environment's process died {slot.deaths} times (exit code {old.process.returncode})"
                events.append(failed(culprit, "env_error", message))
            if events:
                del self._slots[culprit]
        new = self._workers[index] = _Worker(self._blob)
        for number, slot in self._slots.items():
            if self._home.get(slot.task.id) != index:
                continue
            if slot.begun:
                new.waiting.append(Command("rebuild", number, slot.task, slot.informed, actions=tuple(slot.actions)))
            if slot.pending is not None:
                new.waiting.append(slot.pending)
        return events


def _stop_all(workers: list[_Worker]) -> None:
    for worker in workers:
        worker.stop()
    workers.clear()
