"""Native play, and TextWorld with its cache, are stock TextWorld play, step by step: text, commands and verdict."""

import json
import random
import sys

import pytest
from sharpo.envs import textgames
from sharpo.envs.alfworld import AlfWorld
from sharpo.envs.household import Household
from sharpo.envs.tw_parts import sentence


def play(env, task, stock, rng, turns, expert_share):
    """Play both side by side; the expert's commands, admissible ones and nonsense."""
    argv = list(sys.argv)
    text, info = env.reset(options={"task": task, "informed_oracle": True})
    assert sys.argv == argv
    reference = stock(env._game_data(task))
    try:
        state = reference.reset()
    finally:
        sys.argv[:] = argv
    assert text == state.feedback
    for _ in range(turns):
        assert info["admissible"] == tuple(c for c in state["admissible_commands"] if c != "help")
        kind = rng.random()
        if kind < expert_share:
            action = info["oracle"]
        else:
            action = rng.choice([*info["admissible"], "help"]) if kind < 0.95 else "go to the moon"
        text, reward, done, truncated, info = env.step(action)
        state, _, _ = reference.step(action)
        assert text == state.feedback
        assert done == state["won"] == env.outcome().success
        assert reward == (10.0 if done else 0.0)
        if done or truncated:
            break
    return done


@pytest.fixture
def fresh():
    textgames._loaded.clear()
    yield
    textgames._loaded.clear()


@pytest.mark.parametrize("engine", ["native", "textworld"])
@pytest.mark.parametrize("index", range(6))
def test_generated_games_play_as_stock_textworld_plays_them(index, engine, stock, fresh):
    env = Household(receptacles=6, objects=4, max_turns=40, engine=engine)
    task = env.task("val", index)
    rng = random.Random(index)
    play(env, task, stock, rng, 12, 0.2)
    assert play(env, task, stock, rng, 20, 1.0)


@pytest.mark.parametrize("engine", ["native", "textworld"])
def test_interleaved_games_and_members_do_not_disturb_each_other(engine, stock, fresh):
    """One engine serves every game of a process: switching games in every turn must change nothing."""
    members = [Household(receptacles=6, objects=4, max_turns=40, engine=engine) for _ in range(4)]
    tasks = [members[0].task("val", index // 2) for index in range(4)]
    rng = random.Random(0)
    references = []
    infos = []
    argv = sys.argv
    for env, task in zip(members, tasks, strict=True):
        references.append(stock(env._game_data(task)))
        references[-1].reset()
        infos.append(env.reset(options={"task": task})[1])
    sys.argv = argv
    for _ in range(8):
        for at in rng.sample(range(4), 4):
            action = infos[at]["oracle"] if rng.random() < 0.3 else rng.choice(infos[at]["admissible"])
            if action is None:
                continue
            text, *_, infos[at] = members[at].step(action)
            state, _, _ = references[at].step(action)
            assert text == state.feedback
            assert list(infos[at]["admissible"]) == [c for c in state["admissible_commands"] if c != "help"]


def test_real_games_play_as_stock_textworld_plays_them(alfworld_games, stock, fresh):
    env = AlfWorld(data=str(alfworld_games), max_turns=40)
    assert env.num_tasks("val") == 5
    rng = random.Random(1)
    for index in (0, 3):
        assert play(env, env.task("val", index), stock, rng, 40, 0.7)


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
