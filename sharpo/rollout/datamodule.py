"""RolloutDataModule: one collection per epoch with the newest weights, and panels played at the fresh version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import lightning
import torch
from torch import Tensor, distributed
from torch.utils.data import DataLoader

from sharpo.algorithms.base import Algorithm
from sharpo.engine.scripted import TextEngine
from sharpo.engine.weights import publish
from sharpo.env import TextEnv
from sharpo.episode import EpisodeGroup, Task
from sharpo.errors import ConfigError
from sharpo.protocols import EnvPool, HintBuilder, RolloutEngine
from sharpo.rollout import store
from sharpo.rollout.buffer import Origin, RolloutBuffer, Sizes
from sharpo.rollout.collate import collate, hinted_students
from sharpo.rollout.collector import Collector
from sharpo.rollout.draw import WorkerDraw
from sharpo.rollout.memory import memory_of, remember
from sharpo.rollout.panel import Panel
from sharpo.rollout.play import Budgets, CollectResult
from sharpo.rollout.render import Renderer
from sharpo.rollout.schedule import EpisodeBatch, PanelTasks, training_tasks
from sharpo.rollout.stats import collate_metrics
from sharpo.seeding import derive


class RolloutDataModule(lightning.LightningDataModule):
    """Collects when Lightning asks for the training loader: once per epoch, before the epoch's scoring.

    Needs ``Trainer(reload_dataloaders_every_n_epochs=1, num_sanity_val_steps=0, use_distributed_sampler=False)``.
    Reads ``policy_version`` and ``policy.named_weights`` of the LightningModule and nothing else.

    Args:
        engine: builds the engine, once per process.
        pool: builds the pool from ``make_env``.
        make_env: builds one environment; picklable.
        renderer: text to tokens and back.
        hint: builds hints.
        algorithm: says whether hints are needed and gives the base advantages.
        sizes: groups, episodes, rows; see :class:`~sharpo.rollout.buffer.Sizes`.
        budgets: token budgets and concurrency; see :class:`~sharpo.rollout.play.Budgets`.
        panels: validation panels by name.
        temperature: of the training rollouts.
        seed: the run's seed.
        save_rollouts: folder for the training episodes as JSON lines; None = none are written.
    """

    def __init__(
        self,
        *,
        engine: Callable[[], RolloutEngine],
        pool: Callable[[Callable[[], TextEnv]], EnvPool],
        make_env: Callable[[], TextEnv],
        renderer: Renderer,
        hint: HintBuilder,
        algorithm: Algorithm,
        sizes: Sizes,
        budgets: Budgets | None = None,
        panels: Mapping[str, Panel | WorkerDraw] | None = None,
        temperature: float = 1.0,
        seed: int = 0,
        save_rollouts: str | None = None,
    ) -> None:
        super().__init__()
        self.make_engine, self.make_pool, self.make_env = engine, pool, make_env
        self.renderer, self.hint, self.algorithm = renderer, hint, algorithm
        self.sizes, self.budgets, self.panels = sizes, budgets or Budgets(), dict(panels or {})
        self.temperature, self.seed, self.save_rollouts = temperature, seed, save_rollouts
        self.env = make_env()
        if hasattr(hint, "check_families") and algorithm.reads_hint:
            hint.check_families(self.env.families)  # type: ignore[attr-defined]
        self.engine: RolloutEngine | None = None
        self.pool: EnvPool | None = None
        self.iteration = 0
        """Collections begun since the start of the run, over resumes."""
        self.collections = 0
        """Collections of this process."""
        self._untouched: RolloutBuffer | None = None

    @property
    def panel_names(self) -> tuple[str, ...]:
        """Names of the validation panels, in the order of their loaders."""
        return tuple(self.panels)

    @property
    def families(self) -> tuple[str, ...]:
        """Task families of the environment."""
        return self.env.families

    @property
    def no_effect(self) -> str | None:
        """The environment's fixed answer to an action without effect, where it has one."""
        return self.env.no_effect

    # -- Lightning's hooks -----------------------------------------------------------------------------------------
    def setup(self, stage: str) -> None:
        """Check the trainer's settings and start this process's engine and environments."""
        trainer = self.trainer
        if stage == "fit" and trainer is not None:
            for name, need in (("reload_dataloaders_every_n_epochs", 1), ("num_sanity_val_steps", 0)):
                have = getattr(trainer, name)
                if have != need:
                    raise ConfigError(f"trainer.{name}={have}: rollouts need {need} (one collection per epoch)")
            if trainer.world_size > 1 and trainer._accelerator_connector.use_distributed_sampler:
                raise ConfigError("trainer.use_distributed_sampler=true: set it to false; tasks are shared out here")
            if self.save_rollouts is not None:
                store.check_folder(self.save_rollouts)
        if self.engine is None:
            if trainer is not None and trainer.is_global_zero:
                print("starting the engine and the environments", flush=True)  # noqa: T201
            self.engine = self.make_engine()
            if isinstance(self.engine, TextEngine):
                self.engine.attach(self.renderer.action_ids)
        if self.pool is None:
            self.pool = self.make_pool(self.make_env)

    def teardown(self, stage: str) -> None:
        """Stop the engine and the environments."""
        del stage
        if self.pool is not None:
            self.pool.close()
        if self.engine is not None:
            self.engine.close()
        self.engine = self.pool = self._untouched = None

    def train_dataloader(self) -> DataLoader[Any]:
        """Publish the newest weights, collect one iteration, and return its sized buffer.

        After a resume Lightning asks twice before the first update; the second time gets the same buffer.
        """
        module: Any = self._trainer.lightning_module
        if self._untouched is None or self._untouched.policy_version != module.policy_version:
            self._untouched = self.collect()
        return DataLoader(self._untouched, batch_size=None, shuffle=False, num_workers=0, collate_fn=_as_is)

    def val_dataloader(self) -> list[DataLoader[Any]]:
        """Return one loader per panel with this rank's tasks; no episode is played here."""
        return [
            DataLoader(
                _One(PanelTasks(name, panel.select(self.env, *self._place()))),
                batch_size=None,
                num_workers=0,
                collate_fn=_as_is,
            )
            for name, panel in self.panels.items()
        ]

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        """Turn a panel's tasks into episodes, with the weights of this very moment."""
        del dataloader_idx
        if isinstance(batch, PanelTasks):
            return self.play(batch)
        self._untouched = None
        return batch

    def state_dict(self) -> dict[str, Any]:
        """Return the task cursor and what the hint remembers."""
        memory = memory_of(self.hint)
        return {"iteration": self.iteration, **({} if memory is None else {"memory": memory.state()})}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the task cursor and what the hint remembers."""
        self.iteration = int(state_dict["iteration"])
        memory, kept = memory_of(self.hint), state_dict.get("memory")
        if memory is not None and kept is not None:
            memory.restore(kept)
        self._untouched = None

    # -- the stages ------------------------------------------------------------------------------------------------
    def collect(self) -> RolloutBuffer:
        """Play the tasks of the next iteration and collate them."""
        rank, world = self._place()
        sizes, iteration = self.sizes, self.iteration
        tasks = training_tasks(self.env, iteration, sizes.groups, self.seed, rank, world)
        hinted = hinted_students(self.algorithm, sizes.group_size)
        result, version = self._rollouts(
            tasks, sizes.group_size, self.temperature, self.seed, label="Collect", hinted=hinted
        )
        self.iteration += 1
        self.collections += 1
        if self.save_rollouts is not None:
            store.save(f"{self.save_rollouts}/iteration_{iteration:05d}_rank{rank}.jsonl", result.groups)
        groups = [EpisodeGroup(episodes[0].task, tuple(episodes)) for episodes in result.groups]
        limit = sizes.max_row if sizes.max_row is not None else self._engine.max_context
        rows = collate(groups, self.algorithm, self.hint, self.renderer.tokenize, limit)
        remember(self.hint, tasks, groups, rank, world)
        return RolloutBuffer(
            rows,
            sizes,
            self._trainer.accumulate_grad_batches,
            Origin(self.seed, iteration, version, self.renderer.pad_id, world),
            {**result.stats.metrics(self._sum, world), **collate_metrics(rows.hints, rows.groups, self._sum)},
            with_teacher=self.algorithm.needs_teacher,
            teacher_in_update=self.algorithm.divergence is not None,
            reduce=self._reduce,
        )

    def play(self, batch: PanelTasks) -> EpisodeBatch:
        """Play a panel's tasks with the newest weights."""
        panel = self.panels[batch.panel]
        seed = derive(self.seed, "panel", batch.panel)
        result, version = self._rollouts(
            batch.tasks, panel.samples, panel.temperature, seed, label=f"Validate {batch.panel}", keep_lost=True
        )
        episodes = tuple(episode for group in result.groups for episode in group)
        return EpisodeBatch(batch.panel, episodes, version, result.stats.metrics(self._sum, self._place()[1]))

    def _rollouts(
        self,
        tasks: Sequence[Task],
        members: int,
        temperature: float,
        seed: int,
        *,
        label: str,
        hinted: frozenset[int] = frozenset(),
        keep_lost: bool = False,
    ) -> tuple[CollectResult, int]:
        module: Any = self._trainer.lightning_module
        version = int(module.policy_version)
        publish(self._engine, version, module.policy.named_weights)
        assert self.pool is not None
        collector = Collector(self._engine, self.pool, self.renderer, self.env.parse, self.budgets)
        show = getattr(self._trainer.progress_bar_callback, "on_collect_progress", None)

        def progress(done: int, total: int, *_: float) -> None:
            if show is not None:
                show(self._trainer, done, total, label)

        result = collector.collect(
            tasks,
            members,
            seed=seed,
            version=version,
            temperature=temperature,
            hinted_members=hinted,
            on_progress=progress,
            keep_lost=keep_lost,
        )
        if getattr(self._engine, "sleeps", False):  # its memory is the trainer's until the next publish
            self._engine.sleep()  # type: ignore[attr-defined]
        return result, version

    # -- this process among others ---------------------------------------------------------------------------------
    @property
    def _trainer(self) -> lightning.Trainer:
        if self.trainer is None:
            raise ConfigError("RolloutDataModule works inside a Trainer: call trainer.fit(module, datamodule=...)")
        return self.trainer

    @property
    def _engine(self) -> RolloutEngine:
        assert self.engine is not None
        return self.engine

    def _place(self) -> tuple[int, int]:
        return self._trainer.global_rank, self._trainer.world_size

    def _reduce(self, x: Tensor, how: Literal["sum", "max"]) -> Tensor:
        if not (distributed.is_available() and distributed.is_initialized()):
            return x
        moved = x.to(self._trainer.strategy.root_device)
        distributed.all_reduce(moved, distributed.ReduceOp.SUM if how == "sum" else distributed.ReduceOp.MAX)
        return moved.cpu()

    def _sum(self, values: Sequence[float]) -> Sequence[float]:
        return self._reduce(torch.tensor(values, dtype=torch.float64), "sum").tolist()


class _One(torch.utils.data.Dataset[Any]):
    """A dataset of one item."""

    def __init__(self, item: Any) -> None:
        self.item = item

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Any:
        if index != 0:
            raise IndexError(index)
        return self.item


def _as_is(item: Any) -> Any:
    return item
