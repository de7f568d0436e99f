"""The composition root: composes the configuration, builds every part, runs, and turns errors into one message."""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lightning
from hydra import compose, initialize_config_module
from hydra.errors import HydraException, InstantiationException
from hydra.utils import instantiate
from lightning.fabric.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sharpo import checkpoints, checks, compare, overrides, plan, run_folder, stats, sweep
from sharpo.errors import ConfigError, SharpoError, end
from sharpo.logged import logged_config, tell, without_secrets
from sharpo.quiet import hush, hush_own_checkpoints

CONFIGS = "sharpo.configs"
RUN = "SHARPO_RUN"


def read(config_name: str, arguments: Sequence[str]) -> DictConfig:
    """Compose a configuration from ``sharpo.configs`` and command-line overrides.

    Raises:
        ConfigError: for an unknown choice or knob, with close matches, or a value that is missing.
    """
    chosen, values = overrides.split(arguments, overrides.choices())
    cfg = _composed(config_name, [*chosen, *(values and overrides.repaired(_choices(config_name, *chosen), values))])
    if "LOCAL_RANK" in os.environ and RUN in os.environ:  # a process that the first one launched shares its folder
        cfg.paths.run = os.environ[RUN]
    return whole(cfg)


def whole(cfg: DictConfig) -> DictConfig:
    """Resolve a configuration in place and return it.

    Raises:
        ConfigError: for a setting that was removed, has no value, or refers to nothing.
    """
    checks.check_needed(OmegaConf.to_container(cfg, resolve=False))  # type: ignore[arg-type]
    try:
        OmegaConf.resolve(cfg)
    except OmegaConfBaseException as error:
        raise ConfigError(f"configuration: {str(error).splitlines()[0]}") from error
    return cfg


def build(cfg: Any, name: str, *, partial: bool = False, **extra: Any) -> Any:
    """Instantiate ``cfg`` (a node with ``_target_``), calling it ``name`` in messages.

    Args:
        cfg: the node; its values reach the constructor as plain ones.
        name: the field.
        partial: return a callable that finishes the construction.
        **extra: objects that no yaml can hold.

    Raises:
        ConfigError: naming the field, when the target refuses its arguments.
    """
    node = OmegaConf.to_container(cfg, resolve=True) if OmegaConf.is_config(cfg) else cfg
    if not isinstance(node, dict) or "_target_" not in node:
        raise ConfigError(f"{name}={node}: the chosen group has no such part; choose another or leave this out")
    overrides.refuse_fixed(name, node, extra)
    try:
        make = functools.partial(instantiate(node, _partial_=True, _convert_="all"), **extra)
        inspect.signature(make.func).bind_partial(*make.args, **make.keywords)
        return make if partial else make()
    except (InstantiationException, TypeError, ValueError, MisconfigurationException) as error:
        raise _unwrapped(error, name) from error


def _unwrapped(error: Exception, name: str) -> SharpoError:
    cause: BaseException = error
    while isinstance(cause, InstantiationException) and cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, SharpoError):
        return cause
    inner = [line.removeprefix("full_key: ") for line in str(error).splitlines() if line.startswith("full_key: ")]
    where = ".".join([name, *filter(None, inner)])
    text = str(cause).strip() or type(cause).__name__
    return ConfigError(f"{where}: {text.splitlines()[0]}")


class Parts:
    """Everything of a run, built from a configuration in the order in which mistakes are cheapest to find."""

    def __init__(self, cfg: DictConfig) -> None:
        self.cfg = cfg
        self.plain: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True)  # type: ignore[assignment]
        self.run = Path(cfg.paths.run)
        checks.check_values(self.plain)
        self.algorithm = build(cfg.algorithm, "algorithm")
        self.hint = build(cfg.hint, "hint")
        self.panels = {name: build(node, f"panel.{name}") for name, node in cfg.panel.items()}
        self.make_env: Callable[[], Any] = build(cfg.env, "env", partial=True)
        self.env = build(cfg.env, "env")
        self.sizes = build(cfg.data.sizes, "data.sizes")
        self.budgets = build(cfg.data.budgets, "data.budgets")
        checks.check_choices(self.plain, self.algorithm)
        checks.check_tasks(self.panels, self.env, read=not cfg.get("plan"))  # without its data it says so here
        self.logged = logged_config(self.plain, self.algorithm)

    @property
    def path(self) -> str:
        """Folder or hub id of the model; a model that is made from scratch is made now."""
        node = self.cfg.model.path
        if not OmegaConf.is_config(node):
            return checks.check_model(node, self.cfg.model.get("remedy"))
        if not hasattr(self.env, "lexicon"):
            raise ConfigError(f"model=tiny needs an environment that lists its words; {self.cfg.env._target_} does not")
        return build(node, "model.path").prepare(self.env.lexicon)

    def policy(self, partial: bool = False) -> Any:
        """Load the policy, or with ``partial`` return what loads it."""
        model = {k: v for k, v in self.cfg.model.items() if k not in ("path", "remedy")}
        return build(OmegaConf.create(model), "model", path=self.path, partial=partial)

    def module(self) -> Any:
        """Build the LightningModule; no weights are loaded yet."""
        from sharpo.module import SharpoModule

        cfg = self.cfg
        schedule = None if cfg.schedule is None else build(cfg.schedule, "schedule", partial=True)
        updates = build(cfg.optimizer, "optimizer", partial=True), schedule
        checks.check_optimizer(*updates)
        module = SharpoModule(
            self.policy(partial=True),
            self.algorithm,
            *updates,
            temperature=cfg.temperature,
            teacher=cfg.teacher,
            gate=None if cfg.gate is None else build(cfg.gate, "gate"),
        )
        module.save_hyperparameters(self.logged, logger=False)
        return module

    def data(self) -> Any:
        """Build the data module; its engine and environments start in ``setup``."""
        cfg, path = self.cfg, self.path
        engine = {"path": path} if overrides.takes(cfg.engine._target_, "path") else {}
        rest = {k: v for k, v in cfg.data.items() if k not in ("sizes", "budgets", "pool")}
        return build(
            OmegaConf.create(rest),
            "data",
            engine=build(cfg.engine, "engine", **engine, partial=True),
            pool=build(cfg.data.pool, "data.pool", partial=True),
            make_env=self.make_env,
            renderer=build(cfg.prompt, "prompt", tokenizer_path=path),
            hint=self.hint,
            algorithm=self.algorithm,
            sizes=self.sizes,
            budgets=self.budgets,
            panels=self.panels,
            temperature=cfg.temperature,
            seed=cfg.seed,
        )

    def trainer(self, resumed: str | None = None) -> lightning.Trainer:
        """Build the trainer with the settings that one collection per epoch needs.

        Args:
            resumed: the checkpoint that training goes on from.
        """
        cfg = self.cfg
        checks.check_run(self.plain, self.panels, self.env)
        callbacks = [build(node, f"callbacks.{name}") for name, node in cfg.callbacks.items() if node is not None]
        if cfg.validate_first and self.panels:
            callbacks.append(build({"_target_": "sharpo.callbacks.validate_first.ValidateFirst"}, "validate_first"))
        same: dict[str, Any] = {"wandb": checkpoints.logged_run(resumed)} if "wandb" in cfg.logger else {}
        loggers = [build(node, f"logger.{k}", **same.get(k, {})) for k, node in cfg.logger.items() if node is not None]
        strategy = build(cfg.strategy, "strategy") if "_target_" in cfg.strategy else cfg.strategy.name
        return build(
            cfg.trainer,
            "trainer",
            **dict[str, Any]({} if self.panels else {"limit_val_batches": 0}),
            strategy=strategy,
            callbacks=callbacks,
            logger=loggers,
            default_root_dir=str(self.run),
            num_sanity_val_steps=0,
            reload_dataloaders_every_n_epochs=1,
            use_distributed_sampler=False,
            log_every_n_steps=1,
            enable_model_summary=False,
        )


def train(cfg: DictConfig) -> float | None:
    """Validate, fit and return the swept metric (``swept``), None when it was never logged."""
    parts = Parts(cfg)
    if cfg.get("plan"):
        plan.tell(parts.plain, parts.env, parts.run, parts.panels, parts.algorithm)
        return None
    hush()
    lightning.seed_everything(cfg.seed, workers=True, verbose=False)
    checkpoint = checkpoints.to_train_on(cfg.ckpt, parts.run, parts.plain)
    hush_own_checkpoints(checkpoint, parts.run)
    trainer = parts.trainer(checkpoint)
    module, data = parts.module(), parts.data()
    with run_folder.claimed(parts.run, fresh=checkpoint is None, first=trainer.is_global_zero):
        if trainer.is_global_zero:
            (parts.run / "config.yaml").write_text(OmegaConf.to_yaml(without_secrets(parts.plain)), encoding="utf-8")
        tell(trainer.loggers, parts.logged)
        os.environ[RUN] = str(parts.run)
        try:
            trainer.fit(module, datamodule=data, ckpt_path=checkpoint, weights_only=True)
        finally:
            del os.environ[RUN]
    if trainer.is_global_zero:
        print(f"run: {parts.run}")  # noqa: T201
    return sweep.swept_value(trainer.callback_metrics, cfg.swept)


def evaluate(cfg: DictConfig) -> dict[str, Any]:
    """Play the panels with a checkpoint (``ckpt=``) or a model folder (``model.path=``), print a table, write JSON."""
    parts = Parts(cfg)
    if not parts.panels:
        raise ConfigError("eval needs a panel: choose panel=default or panel=small")
    if cfg.get("plan"):
        raise ConfigError("debug=plan describes a training, not an evaluation: leave it out")
    hush(judging=True)
    checkpoint = checkpoints.check(checkpoints.find(cfg.ckpt, Path(cfg.paths.root, cfg.name)), resume=False)
    trainer = parts.trainer()
    judged: Any = next((c for c in trainer.callbacks if hasattr(c, "counts")), None)  # type: ignore[attr-defined]
    if judged is None:
        raise ConfigError("eval counts with callbacks.success: choose callbacks=eval")
    tell(trainer.loggers, parts.logged)
    trainer.validate(parts.module(), datamodule=parts.data(), ckpt_path=checkpoint, verbose=False, weights_only=True)
    result = {"model": parts.path, "ckpt": checkpoint, "panels": stats.summary(judged.counts), "scores": judged.scores}
    if trainer.is_global_zero:
        run_folder.make(parts.run)
        (parts.run / "eval.json").write_text(json.dumps(result, indent=2), encoding="utf-8")
        print(stats.table(result["panels"], result["scores"]))  # noqa: T201
        print(f"judged: {checkpoint or parts.path}; written: {parts.run / 'eval.json'}")  # noqa: T201
    return result


def main(run: Callable[[DictConfig], Any] = train, config_name: str = "train") -> None:
    """Run from the command line: a user's mistake is one message on stderr and exit code 2."""
    arguments = sys.argv[1:]
    try:
        if arguments[:1] == ["--saved"]:
            run(sweep.saved(*arguments[1:]))
        elif overrides.wants_hydra(arguments):
            _with_hydra(run, config_name)
        else:
            os.environ.setdefault("HYDRA_FULL_ERROR", "1")
            run(read(config_name, arguments))
    except (SharpoError, HydraException, KeyboardInterrupt) as error:
        end(error)


def _composed(config_name: str, settings: list[str]) -> DictConfig:
    with initialize_config_module(version_base="1.3", config_module=CONFIGS):
        return compose(config_name, overrides=settings)


@functools.lru_cache
def _choices(config_name: str, *chosen: str) -> Any:
    """Return the unresolved configuration of the chosen groups, which its readers leave as it is."""
    return OmegaConf.to_container(_composed(config_name, list(chosen)), resolve=False)


def _with_hydra(run: Callable[[DictConfig], Any], config_name: str) -> None:
    """Let Hydra drive: sweeps (``-m``, ``hparams_search=``), ``--help``, ``--cfg``, shell completion."""
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    launched = sweep.Sweep()
    sys.argv[1:] = overrides.for_hydra(sys.argv[1:], functools.partial(_choices, config_name))

    def job(cfg: DictConfig) -> Any:
        launch = HydraConfig.get()
        swept = run is train and launch.mode is RunMode.MULTIRUN
        folder = sweep.folder_of(launch.sweep.dir, launch.overrides.task) if swept else launch.runtime.output_dir
        if swept and not cfg.get("plan"):
            return launched.member(cfg, Path(folder), launch.overrides.task)
        OmegaConf.update(cfg, "paths.run", folder)
        try:
            return run(whole(cfg))
        except SharpoError as error:  # Hydra would print its own frames
            end(error)

    hydra.main(version_base="1.3", config_path=f"pkg://{CONFIGS}", config_name=config_name)(job)()
    compare.close(launched.members)


if __name__ == "__main__":
    main()
