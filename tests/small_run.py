"""A real run, composed from the real configuration and shrunk: word game, tiny model, transformers engine."""

from __future__ import annotations

from pathlib import Path

SMALL = (
    "~experiment",
    "name=test",
    "env._target_=word_env.WordEnv",
    "env.max_turns=3",
    "wording=tiny",
    "engine=hf",
    "engine.max_context=128",
    "data.pool._target_=sharpo.rollout.env_pool.InlineEnvPool",
    "data.sizes.groups=4",
    "data.sizes.group_size=4",
    "data.sizes.micro_rows=4",
    "data.budgets.turn_tokens=4",
    "model.path.width=32",
    "model.path.heads=1",
    "model.path.layers=2",
    "model.path.feed_forward=64",
    "optimizer.lr=3e-3",
    "panel.val.tasks=8",
    "panel.greedy.tasks=4",
    "callbacks=quiet",
    "trainer.accelerator=cpu",
    "trainer.max_epochs=2",
    "trainer.check_val_every_n_epoch=1",
    "+trainer.enable_progress_bar=false",
)


def build(root: Path, *more: str, folder: Path | None = None):
    """Build a shrunk run in ``folder``, with its model under ``root`` -> cli.Parts."""
    from sharpo.cli import Parts, read

    chosen = [x for x in SMALL if not (x.startswith("panel.") and "panel=none" in more)]
    return Parts(read("train", [*chosen, f"paths.root={root}", f"paths.run={folder or root}/run", *more]))


def train(root: Path, *more: str, callbacks=(), ckpt=None, folder: Path | None = None):
    """Build and fit one -> (trainer, module, data)."""
    import lightning

    built = build(root, *more, folder=folder)
    lightning.seed_everything(built.cfg.seed, workers=True, verbose=False)
    module, data, trainer = built.module(), built.data(), built.trainer()
    trainer.callbacks.extend(callbacks)
    trainer.fit(module, datamodule=data, ckpt_path=ckpt, weights_only=True)
    return trainer, module, data


ROAD = (
    "data.pool._target_=sharpo.rollout.env_pool.InlineEnvPool", "data.sizes.passes=1", "trainer.accelerator=cpu",
    "callbacks.progress.refresh_rate=0",
)  # fmt: skip
TINY_MODEL = (
    "model.path.width=32", "model.path.heads=1", "model.path.layers=1", "model.path.feed_forward=32",
)  # fmt: skip


def road(root: Path, experiment: str, *more: str) -> Path:
    """Run an experiment as ``train.py`` does, shrunk; return its folder."""
    from sharpo import cli

    folder = root / experiment
    settings = (f"experiment={experiment}", f"paths.root={root}", f"paths.run={folder}")
    cli.train(cli.read("train", [*settings, *ROAD, *more]))
    return folder
