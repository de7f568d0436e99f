"""The engine waits for quick environments, a little, and for slow ones hardly ever."""

from dataclasses import replace

import pytest

from sharpo.engine.expert import ExpertEngine
from sharpo.rollout import collector
from sharpo.rollout.patience import Patience


def _reference_worth(step, asked, in_flight, wait):
    """Seconds that episodes gain by a wait after which all have answered: a step each, minus the wait of the others."""
    return sum(step for _ in range(asked)) - sum(wait for _ in range(asked + in_flight))


@pytest.mark.parametrize(("asked", "in_flight"), [(1, 127), (32, 96), (100, 1), (3, 0)])
def test_a_whole_wait_never_costs_more_than_it_gains(asked, in_flight):
    patience = Patience(share=1.0)
    patience.stepped(0.03)
    limit = patience.limit(asked, in_flight)
    assert _reference_worth(0.03, asked, in_flight, limit) == pytest.approx(0.0)
    assert _reference_worth(0.03, asked, in_flight, replace(patience, share=0.5).limit(asked, in_flight)) > 0.0


def test_nothing_is_waited_for_before_the_first_step_or_when_nobody_was_asked():
    patience = Patience()
    assert patience.limit(5, 5) == 0.0
    patience.stepped(1.0)
    assert patience.limit(0, 5) == patience.limit(0, 0) == 0.0


def test_slow_environments_are_waited_for_once_in_a_while():
    patience = Patience(rest=3)
    patience.stepped(1.0)
    limits = []
    for _ in range(9):
        limits.append(patience.limit(4, 4))
        patience.waited(left=3)
    assert [limit > 0 for limit in limits] == [True, False, False, False] * 2 + [True]
    patience = Patience(rest=3)
    patience.stepped(1.0)
    assert patience.limit(4, 4) > 0
    patience.waited(left=2)  # half of them came
    assert patience.limit(4, 4) > 0


class Clock:
    """Time that the fakes below let pass."""

    now = 0.0

    def perf_counter(self):
        self.now += 1e-6  # time never stands still
        return self.now


class SteppingEngine(ExpertEngine):
    """Takes one to three steps of 20 ms for an answer; all requests move on together, as in a decode step."""

    def __init__(self, clock):
        super().__init__()
        self.clock, self.left, self.steps = clock, {}, 0

    def submit(self, request):
        super().submit(request)
        self.left[request.id] = 1 + request.seed % 3

    def poll(self):
        self.clock.now += 0.02
        self.steps += 1
        self.left = {number: steps - 1 for number, steps in self.left.items()}
        waiting, self._waiting = self._waiting, type(self._waiting)(r for r in self._waiting if not self.left[r.id])
        done = super().poll() if self._waiting else []
        self._waiting.extend(request for request in waiting if self.left[request.id])
        return done


@pytest.fixture
def played(play, fake_pool, monkeypatch):
    """Play with environments that answer ``latency`` seconds later: (seconds, engine steps, episodes)."""

    def run(latency, patience):
        clock = Clock()

        class LatePool(fake_pool):
            def _answer(self, slot, task, event):
                self.due.append((clock.now + latency, event))

            def poll(self, timeout_s):
                soon = min((at for at, _ in self.due), default=0.0)
                clock.now = max(clock.now, min(soon, clock.now + timeout_s))
                ready = [event for at, event in self.due if at <= clock.now]
                self.due = [(at, event) for at, event in self.due if at > clock.now]
                return ready

        monkeypatch.setattr(collector, "time", clock)
        monkeypatch.setattr(collector, "Patience", lambda: patience)
        engine = SteppingEngine(clock)
        result = play(8, 4, engine=engine, pool=LatePool())
        return clock.now, engine.steps, result.groups

    return run


def test_quick_environments_join_the_engines_next_step(played):
    seconds, steps, groups = played(0.0005, Patience())
    before, more, same = played(0.0005, Patience(share=0.0))
    assert steps < 0.85 * more
    assert seconds < 0.85 * before
    assert groups == same


@pytest.mark.parametrize("latency", [0.0, 0.004, 0.03, 0.1, 1.0])
def test_whatever_environments_take_waiting_for_them_costs_little(played, latency):
    seconds, _, groups = played(latency, Patience())
    before, _, same = played(latency, Patience(share=0.0))
    assert seconds <= 1.05 * before
    assert groups == same
