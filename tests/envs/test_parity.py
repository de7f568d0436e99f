"""Native play, and TextWorld with its cache, are stock TextWorld play, step by step: text, commands and verdict."""

import json
import random
import runpy
import sys
from pathlib import Path

import pytest
from sharpo.envs import textgames
from sharpo.envs.alfworld import AlfWorld
from sharpo.envs.household import Household
from sharpo.envs.tw_parts import sentence

ENGINES = ("native", "textworld")
hostile = runpy.run_path(str(Path(__file__).resolve().parents[2] / "benchmarks" / "alfworld_parity.py"))["hostile"]


class Beside:
    """Environments that play one task beside one stock TextWorld: whatever any of them shows is compared."""

    def __init__(self, envs, task, stock):
        self.envs, self.task, self.informed = envs, task, True
        argv = list(sys.argv)
        self.reference = stock(envs[0]._game_data(task))
        sys.argv[:] = argv

    def reset(self):
        argv = list(sys.argv)
        shown = [env.reset(options={"task": self.task, "informed_oracle": self.informed}) for env in self.envs]
        assert sys.argv == argv
        try:
            self.state = self.reference.reset()
        finally:
            sys.argv[:] = argv
        self._same([text for text, _ in shown], [info for _, info in shown])

    def step(self, action):
        """Take a step everywhere; True when the episode has ended."""
        answers = [env.step(action) for env in self.envs]
        self.state, _, _ = self.reference.step(action)
        self._same([answer[0] for answer in answers], [answer[4] for answer in answers], action)
        for env, (_, reward, done, truncated, _) in zip(self.envs, answers, strict=True):
            assert done == self.state["won"] == env.outcome().success, env.engine
            assert reward == (10.0 if done else 0.0), env.engine
            ended = done or truncated
        return ended

    def _same(self, texts, infos, action=None):
        self.admissible = tuple(c for c in self.state["admissible_commands"] if c != "help")
        self.oracle = infos[0]["oracle"]
        for env, text, info in zip(self.envs, texts, infos, strict=True):
            assert text == self.state.feedback, (env.engine, action)
            assert info["admissible"] == self.admissible, (env.engine, action)
            assert info["oracle"] == self.oracle, (env.engine, action)

    def play(self, rng, turns, expert_share):
        """Play the expert's commands, admissible ones and hostile ones; True when the game was won."""
        self.reset()
        for _ in range(turns):
            kind = rng.random()
            if kind < expert_share:
                action = self.oracle
            else:
                action = rng.choice([*self.admissible, "help"]) if kind < 0.85 else hostile(rng, self.admissible)
            if self.step(action):
                break
        return self.state["won"]


@pytest.fixture
def fresh():
    textgames._loaded.clear()
    yield
    textgames._loaded.clear()


def households():
    return [Household(receptacles=6, objects=4, max_turns=40, engine=engine) for engine in ENGINES]


@pytest.mark.parametrize("index", range(6))
def test_generated_games_play_as_stock_textworld_plays_them(index, stock, fresh):
    envs = households()
    beside = Beside(envs, envs[0].task("val", index), stock)
    rng = random.Random(index)
    beside.play(rng, 12, 0.2)
    assert beside.play(rng, 20, 1.0)


def test_every_hostile_form_of_a_command_is_answered_as_stock_textworld_answers_it(stock, fresh):
    envs = households()
    beside = Beside(envs, next(task for i in range(6) if (task := envs[0].task("val", i)).family == "pick"), stock)
    beside.reset()
    while (command := beside.oracle).split()[0] not in ("put", "move"):
        beside.step(command)
    rng = random.Random(0)
    forms = {hostile(rng, [command]) for _ in range(400)}
    other = command.replace("move ", "put ").replace(" to ", " in/on ")
    assert {"", "LOOK", command.upper(), command.replace(" ", "  "), other} < forms
    for form in sorted(forms - {command, f"  {command} "}):
        assert not beside.step(form)
        assert beside.state.feedback == "Nothing happens."
    assert beside.step(f"  {command} ")
    assert beside.state["won"]


def test_interleaved_games_and_members_do_not_disturb_each_other(stock, fresh):
    """One engine serves every game of a process: switching games in every turn must change nothing."""
    members = []
    for index in range(4):
        envs = households()
        members.append(Beside(envs, envs[0].task("val", index // 2), stock))
        members[-1].informed = False
    rng = random.Random(0)
    for member in members:
        member.reset()
    for _ in range(8):
        for member in rng.sample(members, 4):
            action = member.oracle if rng.random() < 0.3 else rng.choice(member.admissible)
            if action is not None:
                member.step(action)


def test_real_games_play_as_stock_textworld_plays_them(alfworld_games, stock, fresh):
    env = AlfWorld(data=str(alfworld_games), max_turns=40)
    assert env.num_tasks("val") == 5
    rng = random.Random(1)
    for index in (0, 3):
        assert Beside([env], env.task("val", index), stock).play(rng, 40, 0.7)


def test_the_other_command_form_is_read_from_the_game(alfworld_games, stock, fresh):
    """A game rewritten to the later text plays with ``move ... to``; the expert follows the game's own grammar."""
    env = AlfWorld(data=str(alfworld_games), max_turns=40)
    index = next(i for i in range(5) if env.task("val", i).family == "pick")
    task = env.task("val", index)
    data = dict(env._game_data(task))
    data["grammar"] = (
        data["grammar"]
        .replace("You arrive at {lend.name}.", "You arrive at {r.name}.")
        .replace("put {o} in/on {r}", "move {o} to {r}")
        .replace("You put the {o.name} in/on the {r.name}.", "You move the {o.name} to the {r.name}.")
    )
    assert sentence(data["grammar"]) == task.instruction
    env._bytes = lambda name: json.dumps(data).encode()
    said = []
    _, info = env.reset(options={"task": task, "informed_oracle": True})
    while info["oracle"] is not None:
        said.append(info["oracle"])
        _, _, done, _, info = env.step(said[-1])
    assert done
    assert said[-1].startswith("move ")
    textgames._loaded.clear()
    del env._bytes
    _, info = env.reset(options={"task": task, "informed_oracle": True})
    for _ in said[:-1]:
        *_, info = env.step(info["oracle"])
    assert info["oracle"] == said[-1].replace("move ", "put ").replace(" to ", " in/on ")


def test_actions_that_change_nothing_leave_the_state_as_it_was(fresh):
    env = Household(receptacles=6, objects=4)
    env.reset(options={"task": env.task("val", 0)})
    state = env._state
    for action in ("look", "inventory", "look", "fly", " look "):
        env.step(action)
        assert env._state == state
