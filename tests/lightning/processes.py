"""Run as a program: one shrunk training, its weights saved by the first process. ``processes.py OUT override...``"""

import sys
from pathlib import Path

if __name__ == "__main__":
    import torch

    from sharpo import cli

    out = Path(sys.argv[1])

    def run(cfg):
        parts = cli.Parts(cfg)
        import lightning

        lightning.seed_everything(cfg.seed, workers=True, verbose=False)
        module, data, trainer = parts.module(), parts.data(), parts.trainer()
        trainer.fit(module, datamodule=data, ckpt_path=cfg.ckpt, weights_only=True)
        # what the engine holds is what the trainer has
        from sharpo.engine.weights import publish

        named = {name: tensor.cpu().clone() for name, tensor in module.policy.named_weights()}
        if trainer.is_global_zero:
            torch.save({"weights": named, "version": module.policy_version, "iteration": data.iteration,
                        "metrics": {k: float(v) for k, v in trainer.callback_metrics.items()}}, out)
        del publish

    run(cli.read("train", sys.argv[2:]))
