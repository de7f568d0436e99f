"""A few validation episodes to read: text and JSON lines in the run folder, and a W&B table when W&B is on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import WandbLogger

from sharpo.episode import Episode
from sharpo.ranges import Natural, checked

COLUMNS = ("iteration", "task", "family", "success", "score", "turns", "ended", "transcript")


class EpisodeTable(Callback):
    """Writes the first episodes of the first panel at each validation, from the first process.

    Args:
        folder: where ``step_<n>.txt`` and ``step_<n>.jsonl`` go; None = ``episodes`` in the run's folder.
        episodes: how many to keep; 0 = none.
    """

    @checked("callbacks.episodes")
    def __init__(self, folder: str | Path | None = None, episodes: Natural = 6) -> None:
        self.folder = folder
        self.episodes = episodes
        self._kept: list[Episode] = []

    def on_validation_epoch_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:  # noqa: ARG002
        """Begin anew."""
        self._kept = []

    def on_validation_batch_end(
        self,
        trainer: lightning.Trainer,  # noqa: ARG002
        pl_module: lightning.LightningModule,  # noqa: ARG002
        outputs: Any,  # noqa: ARG002
        batch: Any,
        batch_idx: int,  # noqa: ARG002
        dataloader_idx: int = 0,
    ) -> None:
        """Keep episodes until there are enough."""
        if dataloader_idx == 0 and len(self._kept) < self.episodes:
            self._kept += list(batch.episodes)[: self.episodes - len(self._kept)]

    def on_validation_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:  # noqa: ARG002
        """Write what was kept."""
        if not self._kept or not trainer.is_global_zero:
            return
        folder = Path(trainer.default_root_dir) / "episodes" if self.folder is None else Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        stem = folder / f"step_{trainer.global_step:06d}"
        stem.with_suffix(".txt").write_text("\n\n".join(map(as_text, self._kept)) + "\n", encoding="utf-8")
        lines = "".join(episode.to_json() + "\n" for episode in self._kept)
        stem.with_suffix(".jsonl").write_text(lines, encoding="utf-8")
        for logger in trainer.loggers:
            if isinstance(logger, WandbLogger):
                logger.log_table("val/episodes", list(COLUMNS), list(map(as_row, self._kept)), step=trainer.global_step)


def as_row(episode: Episode) -> list[Any]:
    """Return the values of ``COLUMNS``."""
    task, outcome = episode.task, episode.outcome
    numbers = [outcome.success, outcome.score, len(episode.turns)]
    return [episode.policy_version, task.id, task.family, *numbers, outcome.reason, as_text(episode)]


def as_text(episode: Episode) -> str:
    """Return an episode as a transcript."""
    verdict = "solved" if episode.outcome.success else f"not solved ({episode.outcome.reason})"
    lines = [f"# {episode.task.id} [{episode.task.family}] {verdict}", episode.task.instruction]
    for turn in episode.turns:
        lines += [
            turn.observation.strip(),
            f"> {turn.action if turn.action is not None else f'(no action) {turn.text}'}",
        ]
    lines.append(episode.turns[-1].next_observation.strip())
    return "\n".join(lines)
