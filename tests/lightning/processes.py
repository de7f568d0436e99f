"""Run as a program by Lightning's launcher: for every case an iteration, then a resume from its checkpoint for another.

The folder holds ``cases.json``, {case: overrides}; each case leaves ``<case>/result.pt`` there.
"""

import json
import sys
from pathlib import Path


def run(out: Path, overrides: list[str]) -> None:
    import torch

    from sharpo import cli

    collections = 0
    for more in (
        ("trainer.max_epochs=1", f"paths.run={out}/first"),
        ("trainer.max_epochs=2", f"paths.run={out}/second", f"ckpt={out}/first/checkpoints/last.ckpt"),
    ):
        parts = cli.Parts(cli.read("train", [*overrides, *more]))
        module, data, trainer = parts.module(), parts.data(), parts.trainer()
        trainer.fit(module, datamodule=data, ckpt_path=parts.cfg.ckpt, weights_only=True)
        collections += data.collections
    weights = {name: tensor.cpu().clone() for name, tensor in module.policy.named_weights()}
    if trainer.is_global_zero:
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        torch.save({"weights": weights, "metrics": metrics, "collections": collections}, out / "result.pt")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for case, settings in json.loads((folder / "cases.json").read_text()).items():
        run(folder / case, settings)
