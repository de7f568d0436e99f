"""RolloutDataModule under a real Trainer: one collection per epoch, fresh versions, panels, resume, refusals."""

from __future__ import annotations

from functools import partial

import lightning
import pytest
import torch
from toy_env import ToyEnv

from sharpo.algorithms.base import Algorithm
from sharpo.engine.expert import ExpertEngine
from sharpo.errors import ConfigError, DataError
from sharpo.hints.attempt import Wording
from sharpo.hints.peer import PeerHint
from sharpo.hints.skill import SkillHint
from sharpo.rollout import store
from sharpo.rollout.buffer import RolloutBuffer, Sizes
from sharpo.rollout.datamodule import RolloutDataModule
from sharpo.rollout.env_pool import InlineEnvPool
from sharpo.rollout.panel import Panel
from sharpo.rollout.schedule import EpisodeBatch, training_tasks

WORDING = Wording("", "{observation} > {action} ", "> {action} ", "", "")


class Flat(Algorithm):
    """All base advantages are one."""

    @property
    def needs_teacher(self):
        return True

    def base_advantages(self, group):
        return torch.ones(sum(len(e.turns) for e in group.episodes))


class Recorder(ExpertEngine):
    """The expert that also notes which version was published when."""

    def __init__(self, log, **knobs):
        super().__init__(**knobs)
        self.log, self.closed = log, False

    def load_weights(self, version, named_tensors):
        self.log.append(("publish", version, len(list(named_tensors))))
        super().load_weights(version, [])

    def close(self):
        self.log.append(("close",))


class Policy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def named_weights(self):
        yield "weight", self.weight.detach()


class Module(lightning.LightningModule):
    """Counts rows; its version moves up with the epoch's last update."""

    def __init__(self, log):
        super().__init__()
        self.policy, self.policy_version, self.log_to = Policy(), 0, log

    def on_train_epoch_start(self):
        buffer = self.trainer.train_dataloader.dataset
        self.log_to.append(("score", buffer.policy_version, buffer.iteration))
        for i, batch in enumerate(buffer.score_batches()):
            buffer.set_advantages(i, torch.zeros(batch.token_ids.shape))

    def training_step(self, batch, _):
        rows, scores = batch
        assert rows.advantages is not None
        assert scores.old_logp.shape == rows.token_ids.shape
        return self.policy.weight.sum() * rows.action_mask.sum()

    def on_train_batch_end(self, outputs, batch, batch_idx):
        if self.trainer.is_last_batch:
            self.policy_version += 1

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        assert isinstance(batch, EpisodeBatch)
        self.log_to.append(("validate", batch.panel, batch.policy_version, len(batch.episodes)))

    def on_save_checkpoint(self, checkpoint):
        checkpoint["version"] = self.policy_version

    def on_load_checkpoint(self, checkpoint):
        self.policy_version = checkpoint["version"]

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def data_of(renderer, log, **more):
    knobs = {
        "engine": partial(Recorder, log, noise=0.3),
        "pool": InlineEnvPool,
        "make_env": ToyEnv,
        "renderer": renderer,
        "hint": PeerHint(wording=WORDING),
        "algorithm": Flat(),
        "sizes": Sizes(groups=2, group_size=3, micro_rows=2),
        "panels": {"val": Panel(tasks=5), "greedy": Panel(tasks=3, temperature=0.0, samples=2)},
    }
    return RolloutDataModule(**{**knobs, **more})


def trainer_of(tmp_path, epochs, **more):
    knobs = {
        "max_epochs": epochs,
        "accumulate_grad_batches": 2,
        "reload_dataloaders_every_n_epochs": 1,
        "num_sanity_val_steps": 0,
        "use_distributed_sampler": False,
        "accelerator": "cpu",
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
        "default_root_dir": tmp_path,
    }
    return lightning.Trainer(**{**knobs, **more})


def test_each_epoch_collects_once_with_the_newest_weights_and_validates_at_the_fresh_version(tmp_path, toy_renderer):
    log = []
    data = data_of(toy_renderer, log)
    trainer = trainer_of(tmp_path, 3)
    trainer.fit(Module(log), datamodule=data)
    assert data.collections == data.iteration == 3
    assert log == [
        *[("publish", 0, 1), ("score", 0, 0)],
        *[("publish", 1, 1), ("validate", "val", 1, 5), ("validate", "greedy", 1, 6), ("score", 1, 1)],
        *[("publish", 2, 1), ("validate", "val", 2, 5), ("validate", "greedy", 2, 6), ("score", 2, 2)],
        *[("publish", 3, 1), ("validate", "val", 3, 5), ("validate", "greedy", 3, 6)],
        ("close",),
    ]
    assert trainer.global_step == 6  # 6 rows / (2 rows x 2 micro-batches) = 2 updates an epoch
    assert data.engine is None
    assert (data.panel_names, data.families) == (("val", "greedy"), ("pick", "clean"))


def test_validation_alone_plays_the_panels_and_starts_a_new_engine(tmp_path, toy_renderer):
    log = []
    data, trainer = data_of(toy_renderer, log), trainer_of(tmp_path, 1)
    trainer.validate(Module(log), datamodule=data, verbose=False)
    assert [entry[0] for entry in log] == ["publish", "validate", "validate", "close"]
    assert data.collections == 0


def test_a_folder_for_episodes_that_cannot_be_made_is_found_before_the_engine_starts(tmp_path, toy_renderer):
    (tmp_path / "file").touch()
    data = data_of(toy_renderer, log := [], save_rollouts=str(tmp_path / "file" / "deep"))
    with pytest.raises(DataError, match=r"data.save_rollouts=.* cannot be written"):
        trainer_of(tmp_path, 1).fit(Module(log), datamodule=data)
    assert log == []
    assert data.engine is None


def test_a_resumed_run_goes_on_with_the_next_tasks_and_version(tmp_path, toy_renderer):
    class Keep(lightning.Callback):
        def on_train_epoch_end(self, trainer, pl_module):
            trainer.save_checkpoint(tmp_path / f"epoch{trainer.current_epoch}.ckpt")

    def run(epochs, folder, resume=None):
        log = []
        trainer = trainer_of(tmp_path, epochs, callbacks=[Keep()], limit_val_batches=0)
        data = data_of(toy_renderer, log, save_rollouts=str(tmp_path / folder))
        trainer.fit(Module(log), datamodule=data, ckpt_path=resume)
        return data, log

    run(4, "whole")
    data, log = run(4, "resumed", resume=str(tmp_path / "epoch1.ckpt"))
    assert (data.collections, data.iteration) == (2, 4)  # Lightning asked three times
    assert [entry for entry in log if entry[0] == "score"] == [("score", 2, 2), ("score", 3, 3)]
    names = [f"iteration_{i:05d}_rank0.jsonl" for i in range(4)]
    assert sorted(path.name for path in (tmp_path / "whole").iterdir()) == names
    assert sorted(path.name for path in (tmp_path / "resumed").iterdir()) == names[2:]
    for name in names[2:]:
        assert store.load(tmp_path / "whole" / name) == store.load(tmp_path / "resumed" / name)


def test_what_the_hint_remembers_survives_a_resume_and_is_shown_again(tmp_path, toy_renderer):
    class Keep(lightning.Callback):
        def on_train_epoch_end(self, trainer, pl_module):
            trainer.save_checkpoint(tmp_path / f"epoch{trainer.current_epoch}.ckpt")

    sources, states = [], []

    class Spy(PeerHint):
        def build(self, group, member, tokenize, room=None):
            hint = super().build(group, member, tokenize, room)
            sources[-1].append((group.task.id, member, None if hint is None else (hint.source, hint.ids)))
            return hint

    def run(epochs, resume=None):
        sources.append([])
        trainer = trainer_of(tmp_path, epochs, callbacks=[Keep()], limit_val_batches=0)
        hint = Spy(wording=WORDING, fallback="replay_buffer", remember=3)
        env, engine = partial(ToyEnv, train_tasks=4), partial(Recorder, [], noise=0.6)
        data = data_of(toy_renderer, [], hint=hint, make_env=env, engine=engine)
        trainer.fit(Module([]), datamodule=data, ckpt_path=resume, weights_only=True)
        states.append(hint.memory.state())

    run(6)
    run(6, resume=str(tmp_path / "epoch2.ckpt"))
    assert states[0] == states[1]
    assert len(states[0]) == 3
    assert sources[1] == sources[0][-len(sources[1]) :]
    assert len(sources[1]) == 3 * 2 * 3
    shown = [hint[0] for _, _, hint in sources[1] if hint is not None]
    assert any(source.startswith("replay:") for source in shown)
    early = [hint for _, _, hint in sources[0][:12] if hint is not None and hint[0].startswith("replay:")]
    assert early == []  # the first pass over the tasks has no earlier iteration


def test_a_family_without_a_skill_text_is_refused_before_anything_is_played(toy_renderer, tmp_path):
    (tmp_path / "pick.txt").write_text("x\n")
    hint = SkillHint(f"{tmp_path}/")
    with pytest.raises(DataError, match=r"no text for the family 'clean'; the folder has pick.txt"):
        data_of(toy_renderer, [], hint=hint)


def test_the_buffer_carries_the_metrics_of_its_collection(tmp_path, toy_renderer):
    seen = []

    class Watch(Module):
        def on_train_epoch_start(self):
            super().on_train_epoch_start()
            seen.append(self.trainer.train_dataloader.dataset)

    trainer_of(tmp_path, 1, limit_val_batches=0).fit(Watch([]), datamodule=data_of(toy_renderer, []))
    (buffer,) = seen
    assert isinstance(buffer, RolloutBuffer)
    assert buffer.stats["episodes"] == 6
    assert buffer.stats["generated_tokens"] > 0
    assert 0 < buffer.stats["hint_coverage"] <= 1
    assert buffer.stats["truncated_env_error"] == 0
    assert {"engine_s", "env_s", "total_s", "tokens_per_s", "invalid_share"} <= buffer.stats.keys()


def test_the_progress_hook_hears_of_every_episode(tmp_path, toy_renderer):
    from lightning.pytorch.callbacks import TQDMProgressBar

    heard = []

    class Bar(TQDMProgressBar):
        def on_collect_progress(self, trainer, done, total, label="Collect"):
            heard.append((label, done, total))

    trainer = trainer_of(tmp_path, 1, enable_progress_bar=True, callbacks=[Bar(refresh_rate=0)])
    trainer.fit(Module([]), datamodule=data_of(toy_renderer, []))
    assert heard[:6] == [("Collect", n, 6) for n in range(1, 7)]
    assert heard[6] == ("Validate val", 1, 5)


class Sleeper(Recorder):
    """Forgets its weights when it sleeps, as vLLM does."""

    sleeps = True

    def sleep(self):
        self.log.append(("sleep", self.version))
        self.version = -1


def test_an_engine_that_may_sleep_does_so_after_each_play_and_is_published_to_again(tmp_path, toy_renderer):
    log = []
    data = data_of(toy_renderer, log, engine=partial(Sleeper, log), panels={"val": Panel(tasks=2)})
    trainer_of(tmp_path, 2).fit(Module(log), datamodule=data)
    moves = [entry[:2] for entry in log if entry[0] in ("publish", "sleep")]
    versions = [0, 1, 1, 2]  # collect, validate, collect, validate
    assert moves == [(what, version) for version in versions for what in ("publish", "sleep")]


@pytest.mark.parametrize(
    ("setting", "message"),
    [({"reload_dataloaders_every_n_epochs": 0}, "one collection"), ({"num_sanity_val_steps": 2}, "num_sanity_val")],
)
def test_trainer_settings_that_break_collection_are_refused(tmp_path, toy_renderer, setting, message):
    with pytest.raises(ConfigError, match=message):
        trainer_of(tmp_path, 1, **setting).fit(Module([]), datamodule=data_of(toy_renderer, []))


def test_ranks_share_the_tasks_of_an_iteration_and_finite_splits_are_walked_in_permutations():
    endless, finite = ToyEnv(), ToyEnv(train_tasks=6)
    whole = [task.id for task in training_tasks(endless, 2, 4, seed=0)]
    assert whole == [f"toy/train/{i}" for i in range(8, 12)]
    shares = [[task.id for task in training_tasks(endless, 2, 4, 0, rank, 2)] for rank in range(2)]
    assert shares == [whole[::2], whole[1::2]]
    first = [t.id for i in range(3) for t in training_tasks(finite, i, 2, seed=0)]
    second = [t.id for i in range(3, 6) for t in training_tasks(finite, i, 2, seed=0)]
    assert sorted(first) == sorted(second) == sorted(f"toy/train/{i}" for i in range(6))
    assert first != second
    for iteration in range(6):  # 6 tasks, 4 a time: two wait for another pass, none is played twice at a time
        assert len({task.id for task in training_tasks(finite, iteration, 4, seed=0)}) == 4
    with pytest.raises(ConfigError, match="groups=3 cannot be shared by 2"):
        training_tasks(endless, 0, 3, 0, 0, 2)
    with pytest.raises(ConfigError, match="train split has 6 tasks"):
        training_tasks(finite, 0, 8, 0)


def test_panels_share_their_tasks_and_refuse_more_than_there_are():
    env = ToyEnv()
    whole = [task.id for task in Panel().select(env)]
    assert sorted(whole) == sorted(f"toy/val/{i}" for i in range(12))
    assert whole == [task.id for task in Panel(temperature=0.0).select(env)]
    shares = [Panel(tasks=5, first=2).select(env, rank, 2) for rank in range(2)]
    assert [[task.id for task in share] for share in shares] == [whole[2:7:2], whole[3:7:2]]
    assert Panel(tasks=1).select(env, 1, 2) == ()
    with pytest.raises(ConfigError, match=r"panel.tasks=6: split 'val' has 12 tasks, and first=8 leaves 4; lower it"):
        Panel(tasks=6, first=8).select(env)
    with pytest.raises(ConfigError, match="endless"):
        Panel(split="train").select(env)
    with pytest.raises(ConfigError, match=r"panel.temperature"):
        Panel(temperature=-1)
    with pytest.raises(ConfigError, match=r"split 'test': ToyEnv has no such split, it has train, val; choose"):
        Panel(split="test").select(env)
    with pytest.raises(ConfigError, match="samples"):
        Panel(samples=0)
