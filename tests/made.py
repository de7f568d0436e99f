"""Episodes and groups by hand, a tokenizer of one token a word, the text of a hint; importable in spawned processes."""

from __future__ import annotations

import torch

from sharpo.episode import Episode, EpisodeGroup, Outcome, Task, Turn
from sharpo.hints.peer import PeerHint
from sharpo.rollout.memory import remember


class Made:
    """Builders of tasks, episodes and groups."""

    @staticmethod
    def words(text):
        return list(range(len(text.split())))

    @staticmethod
    def task(family="pick", name="t/1"):
        return Task(name, family, "put a key on the table", 0)

    @staticmethod
    def turn(action, saw="a room", got="a table"):
        return Turn((1,), (2,), (), str(action), action, {}, saw, got, 0.0, 0.0, "stop", 0)

    def episode(self, member, actions, success, task=None, version=0, ends="the end", score=None):
        turns = [self.turn(action) for action in actions[:-1]] + [self.turn(actions[-1], got=ends)]
        outcome = Outcome(success, float(success) if score is None else score, success, not success)
        return Episode(task or self.task(), tuple(turns), outcome, version, member)

    def group(self, *specs, task=None, version=0):
        """Each spec is (actions, success)."""
        task = task or self.task()
        return EpisodeGroup(
            task, tuple(self.episode(i, actions, won, task, version) for i, (actions, won) in enumerate(specs))
        )

    def spoken(self, hint, group, member, room=None):
        """Return the hint and the text of it."""
        texts = {}

        def tokenize(text):
            texts[len(text.split())] = text
            return self.words(text)

        built = hint.build(group, member, tokenize, room)
        return built, None if built is None or not built.ids else texts[len(built.ids)]


def remembered(folder, rank=0, world=1):
    """What a rank remembers after three iterations."""
    made, hint = Made(), PeerHint(fallback="replay_buffer", remember=5)
    if world > 1:
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    for iteration in range(3):
        tasks = [made.task(name=f"t/{(iteration * 3 + j) % 7}") for j in range(4)][rank::world]
        groups = [
            made.group(([f"{task.id} {iteration}"], task.id != "t/3"), (["x"], False), task=task, version=iteration)
            for task in tasks
            if task.id != "t/5"
        ]
        remember(hint, tasks, groups, rank, world)
    if world > 1:
        torch.distributed.destroy_process_group()
    return hint.memory.state()
