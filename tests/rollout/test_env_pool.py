"""One environment that hangs, raises or dies fails alone; everything else goes on as if nothing had happened."""

import importlib
import inspect
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from sharpo.errors import ConfigError, DataError, EngineError
from sharpo.protocols import EnvPool
from sharpo.rollout.env_pool import InlineEnvPool, ProcessEnvPool

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def fault():
    """The fault-injecting environment as an importable module, here and (through sys.path) in the workers."""
    sys.path.insert(0, str(HERE))
    try:
        yield importlib.import_module("fault_env")
    finally:
        sys.path.remove(str(HERE))


@pytest.fixture
def pool(fault):
    made = ProcessEnvPool(fault.FaultEnv, workers=2, step_timeout_s=1.5)
    yield made
    made.close()


def take(pool, count, seconds=40.0):
    """Poll until `count` events came; returned by slot."""
    events, until = {}, time.monotonic() + seconds
    while len(events) < count:
        assert time.monotonic() < until, f"{len(events)} of {count} events"
        for event in pool.poll(1.0):
            assert event.slot not in events
            events[event.slot] = event
    return events


def reset(pool, tasks, **options):
    for slot, task in enumerate(tasks):
        pool.reset(slot, task, **options)
    return take(pool, len(tasks))


def step(pool, slots, action):
    for slot in slots:
        pool.step(slot, action)
    return take(pool, len(slots))


@pytest.fixture(params=["process", "inline"])
def either(request, fault):
    made = InlineEnvPool(fault.FaultEnv) if request.param == "inline" else ProcessEnvPool(fault.FaultEnv, workers=1)
    yield made
    made.close()


def test_an_episode_ends_with_its_outcome(either, fault):
    events = reset(either, [fault.task("a"), fault.task("b")], informed_oracle=True)
    assert events[0].observed.text == "fault/train/a informed"
    assert events[1].observed.admissible == ("a", "b")
    assert events[1].observed.oracle == "a"
    events = step(either, [0, 1], "win")
    assert events[0].terminated
    assert events[0].reward == 1.0
    assert events[0].outcome is not None
    assert events[0].outcome.success
    either.release(0)
    either.reset(0, fault.task("c"))
    assert take(either, 1)[0].observed.text == "fault/train/c "


def test_the_turn_limit_truncates_and_a_missing_action_is_passed_on(either, fault):
    reset(either, [fault.task("a", at=99)])
    for turn in range(6):
        event = step(either, [0], None)[0]
        assert event.truncated == (turn == 5)
    assert event.outcome is not None
    assert event.outcome.reason == "turn_limit"


def test_an_environment_that_raises_fails_alone(either, fault):
    reset(either, [fault.task("a", "raise"), fault.task("b")])
    step(either, [0, 1], "x")
    events = step(either, [0, 1], "y")
    assert events[0].failure == "env_error"
    assert events[0].message.startswith("ValueError: planted")
    assert len(events[0].message) <= 500
    assert events[0].outcome is not None
    assert events[0].outcome.truncated
    assert events[1].failure is None
    assert events[1].observed.text == "fault/train/b x y"
    assert reset(either, [fault.task("again")])[0].failure is None


def test_a_reset_that_raises_gives_an_event(either, fault):
    assert reset(either, [fault.task("a", "raise", at=0)])[0].failure == "env_error"


def test_a_hung_environment_times_out_and_the_others_are_rebuilt(pool, fault):
    tasks = [fault.task("a", "hang"), *(fault.task(name, at=99) for name in "bcdef")]
    reset(pool, tasks, informed_oracle=True)
    step(pool, range(6), "x")
    begun = time.monotonic()
    events = step(pool, range(6), "y")
    assert events[0].failure == "env_timeout"
    assert "1.5 s" in events[0].message
    assert time.monotonic() - begun < 20
    assert [events[slot].observed.text for slot in range(1, 6)] == [f"fault/train/{n} informed x y" for n in "bcdef"]
    events = step(pool, range(1, 6), "win")
    assert all(event.outcome.success for event in events.values())


def test_a_worker_that_dies_once_costs_nothing(pool, fault, tmp_path):
    tasks = [fault.task("a", "die once", mark=str(tmp_path / "died")), *(fault.task(name, at=99) for name in "bcd")]
    reset(pool, tasks)
    step(pool, range(4), "x")
    events = step(pool, range(4), "y")
    assert [event.failure for event in events.values()] == [None] * 4
    assert events[0].observed.text == "fault/train/a x y"
    assert (tmp_path / "died").exists()


def test_a_task_that_kills_its_worker_again_fails_alone(pool, fault):
    reset(pool, [fault.task("a", "die"), *(fault.task(name, at=99) for name in "bcd")])
    step(pool, range(4), "x")
    events = step(pool, range(4), "y")
    assert events[0].failure == "env_error"
    assert "died 2 times (exit code 7)" in events[0].message
    assert [events[slot].observed.text for slot in (1, 2, 3)] == [f"fault/train/{n} x y" for n in "bcd"]


def test_huge_answers_from_many_slots_get_through(pool, fault):
    tasks = [fault.task(str(n), "flood", at=99) for n in range(20)]
    reset(pool, tasks)
    assert {len(event.observed.text) for event in step(pool, range(20), "x").values()} == {5_000_000}


def test_members_of_a_task_share_a_worker_and_tasks_are_spread(pool, fault):
    reset(pool, [fault.task("a", at=99)] * 3 + [fault.task("b", at=99)] * 3)
    pids = [event.observed.text for _, event in sorted(step(pool, range(6), "pid").items())]
    assert len(set(pids[:3])) == len(set(pids[3:])) == 1
    assert len(set(pids)) == 2


def test_workers_are_light_and_standard_output_stays_clean(fault):
    code = (
        "import sys, fault_env\nfrom sharpo.rollout.env_pool import ProcessEnvPool\n"
        "assert 'torch' not in sys.modules\n"
        "pool = ProcessEnvPool(fault_env.FaultEnv, workers=1)\npool.reset(0, fault_env.task('a', at=99))\n"
        "while not pool.poll(1.0): pass\n"
        "pool.step(0, 'print')\nwhile not pool.poll(1.0): pass\n"
        "pool.step(0, 'modules')\nevents = []\n"
        "while not events: events = pool.poll(1.0)\n"
        "print(events[0].observed.text)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(HERE)!r})\n{code}"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "noise" not in done.stdout
    modules = done.stdout.split()
    assert "gymnasium" in modules
    assert not {"torch", "lightning", "transformers"} & set(modules)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="a process's state is read from /proc")
def test_nothing_is_left_when_the_parent_is_killed_in_the_middle_of_a_hung_step(fault, tmp_path):
    code = (
        f"import sys, os, time; sys.path.insert(0, {str(HERE)!r})\nimport fault_env\n"
        "from sharpo.rollout.env_pool import ProcessEnvPool\n"
        "pool = ProcessEnvPool(fault_env.FaultEnv, workers=2, step_timeout_s=600)\n"
        "pool.reset(0, fault_env.task('a', 'hang', at=1)); pool.reset(1, fault_env.task('b'))\n"
        "got = 0\nwhile got < 2: got += len(pool.poll(1.0))\n"
        "pool.step(0, 'x'); pool.poll(0.3)\n"
        "print(*(w.process.pid for w in pool._workers), flush=True); os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 2, done.stderr
    until = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() and "Z" not in state(pid) for pid in pids):
        assert time.monotonic() < until
        time.sleep(0.05)


def state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return "Z"


def test_closing_ends_the_workers_and_may_be_repeated(fault):
    pool = ProcessEnvPool(fault.FaultEnv, workers=2)
    processes = [worker.process for worker in pool._workers]
    pool.close()
    pool.close()
    assert all(process.poll() is not None for process in processes)
    with pytest.raises(EngineError, match="closed"):
        pool.reset(0, fault.task("a"))


def test_the_pool_works_beside_other_threads(fault):
    stop = threading.Event()
    others = [threading.Thread(target=stop.wait) for _ in range(4)]
    for thread in others:
        thread.start()
    try:
        pool = ProcessEnvPool(fault.FaultEnv, workers=1)
        assert reset(pool, [fault.task("a")])[0].failure is None
        pool.close()
    finally:
        stop.set()
        for thread in others:
            thread.join()


def test_an_environment_that_cannot_be_made_says_why(fault):
    pool = ProcessEnvPool(partial(fault.FaultEnv, broken=True), workers=1)
    pool.reset(0, fault.task("a"))
    with pytest.raises(DataError, match="the games are not here: fetch them"):
        take(pool, 1)


def test_bad_settings_are_refused(fault):
    with pytest.raises(ConfigError, match=r"data\.pool\.workers=0: must be at least 1"):
        ProcessEnvPool(fault.FaultEnv, workers=0)
    with pytest.raises(ConfigError, match=r"data\.pool\.step_timeout_s=0: must be above 0"):
        ProcessEnvPool(fault.FaultEnv, step_timeout_s=0)
    with pytest.raises(ConfigError, match="cannot go to a worker process"):
        ProcessEnvPool(lambda: fault.FaultEnv())


@pytest.mark.parametrize("kind", [InlineEnvPool, ProcessEnvPool])
def test_a_pool_has_the_methods_of_the_seam(kind):
    seam = {name: x for name, x in vars(EnvPool).items() if inspect.isfunction(x) and not name.startswith("_")}
    assert set(seam) == {"reset", "step", "poll", "release", "close"}
    for name, wanted in seam.items():
        given, asked = (
            [(p.name, p.kind, p.default) for p in inspect.signature(x).parameters.values()]
            for x in (getattr(kind, name), wanted)
        )
        assert given == asked, name
