"""Groups of episodes as stories: which state each turn left, by which action, where it led, what it paid."""

import random

from sharpo.episode import Episode, EpisodeGroup, Outcome, Task, Turn


def tell(observation, action, next_observation, reward=0.0, penalty=0.0):
    """One turn; the prompt and the sampled tokens do not matter."""
    return Turn(
        prompt_ids=(1, 2), action_ids=(3, 4), action_logp=(), text=action or "", action=action,
        spans={"action": (0, 1)} if action else {}, observation=observation, next_observation=next_observation,
        reward=reward, penalty=penalty, finish="stop", hint_at=1,
    )  # fmt: skip


def story(*episodes, won=None):
    """A group: each episode is a list of turns as tuples; it is won when it paid anything, or as ``won`` says."""
    task = Task(id="story/1", family="pick", instruction="", seed=0)
    built = []
    for member, turns in enumerate(episodes):
        told = tuple(tell(*turn) for turn in turns)
        success = sum(turn.reward for turn in told) > 0 if won is None else won[member]
        outcome = Outcome(success=success, score=float(success), terminated=success, truncated=not success)
        built.append(Episode(task, told, outcome, policy_version=0, member=member))
    return EpisodeGroup(task, tuple(built))


def vector_story():
    """T1: s0 → s1 → won (10); T2: s0 → s2 → s2 → s2, lost."""
    return story(
        [("s0", "a", "s1"), ("s1", "b", "won", 10.0)],
        [("s0", "c", "s2"), ("s2", "c", "s2"), ("s2", "c", "s2")],
    )


def random_story(seed, states=4):
    """A random walk of 2 to 5 episodes over few states, some won, some turns without an action."""
    rng = random.Random(seed)
    episodes = []
    for _ in range(rng.randint(2, 5)):
        here, turns, won = "s0", [], rng.random() < 0.5
        length = rng.randint(1, 6)
        for k in range(length):
            there = f"s{rng.randrange(states)}"
            action = rng.choice(["go", "take", "open", None])
            paid = 10.0 if won and k == length - 1 else rng.choice([0.0, 0.0, 0.5])
            turns.append((here, action, there, paid, 0.0 if action else 0.1))
            here = there
        episodes.append((turns, won))
    return story(*(turns for turns, _ in episodes), won=[won for _, won in episodes])


def shuffled(group, seed):
    """The same group with its episodes in another order, and where each turn went."""
    order = list(range(len(group.episodes)))
    random.Random(seed).shuffle(order)
    starts, total = [], 0
    for episode in group.episodes:
        starts.append(total)
        total += len(episode.turns)
    moved = [starts[m] + k for m in order for k in range(len(group.episodes[m].turns))]
    return EpisodeGroup(group.task, tuple(group.episodes[m] for m in order)), moved
