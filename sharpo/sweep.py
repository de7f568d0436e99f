"""The members of a sweep, each in its own process: skipped when finished, resumed when interrupted, kept apart."""

from __future__ import annotations

import csv
import fcntl
import hashlib
import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from omegaconf import DictConfig, OmegaConf

from sharpo import overrides
from sharpo.errors import DataError
from sharpo.logged import without_secrets

RECORD, CONFIG, LOG, LOCK = "member.json", "member.yaml", "log.txt", ".lock"
NO_RESULT = ("ckpt", "paths", "logger", "callbacks", "hparams_search")  # these change no number of a run
UNNAMED = re.compile(rf"[+~]*({'|'.join(NO_RESULT)}|hydra)([./@=]|$)")


@dataclass(frozen=True)
class Member:
    """One run of a sweep, as its record says.

    Args:
        folder: of this member alone.
        settings: what it was asked for, ``key=value``.
        seed: of the run.
        status: ``running``, ``finished`` or ``failed``.
        message: why it failed.
        seconds: that its processes took.
    """

    folder: Path
    settings: tuple[str, ...]
    seed: int
    status: str = "running"
    message: str = ""
    seconds: float = 0.0

    @property
    def checkpoint(self) -> Path:
        """Where the run keeps what a resume needs."""
        return self.folder / "checkpoints" / "last.ckpt"

    def write(self, config: Mapping[str, Any]) -> Member:
        """Keep the record, and the configuration it belongs to, beside the run."""
        record = {**asdict(self), "folder": self.folder.name, "config": config}
        (self.folder / RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")
        return self


def folder_name(settings: Sequence[str]) -> str:
    """Return the name of a member's folder: its settings alone decide it, never the time or the order.

    Settings that change no number (``paths``, ``logger``, ``callbacks``, ``ckpt``) are left out; when a value does not
    fit a file name, or all are long, a digest stands for what is lost.

    Example:
        >>> folder_name(["hparams_search=compare", "seed=1", "algorithm=sharpo"])
        'algorithm=sharpo,seed=1'
        >>> folder_name(["model.path=/models/a", "seed=1"])
        'seed=1,model.path=_models_a,5997b57d'
    """
    kept = [setting.lstrip("+") for setting in settings if not UNNAMED.match(setting)]
    kept.sort(key=lambda s: (not s.startswith("algorithm="), not s.startswith("seed="), s))
    whole = ",".join(kept)
    name = re.sub(r"[^\w.=,~-]", "_", whole)[:120]
    return name or "run" if name == whole else f"{name},{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def folder_of(root: str, settings: Sequence[str]) -> str:
    """Return a member's folder below a sweep's; a plan of it names the same one."""
    return str(Path(root).absolute() / folder_name([setting for setting in settings if setting != "debug=plan"]))


def read(folder: Path) -> tuple[Member, dict[str, Any]] | None:
    """Return a member's record and configuration; None when it never began.

    Raises:
        DataError: when the record cannot be read.
    """
    path = folder / RECORD
    if not path.is_file():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        config = record.pop("config")
        return Member(**{**record, "folder": folder, "settings": tuple(record["settings"])}), config
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is no member's record ({error}): delete the file") from error


def run_member(folder: Path, settings: Sequence[str], text: str, config: Mapping[str, Any]) -> Member:
    """Run one member in a process of its own, or say why that is not needed or not possible.

    A finished member is skipped, one with a ``last.ckpt`` continues from it. Nothing that happens inside the process,
    a crash included, reaches the caller.

    Args:
        folder: of this member alone.
        settings: what it was asked for.
        text: its whole configuration as YAML, interpolations unresolved.
        config: the same, resolved.
    """
    public = without_secrets(config)
    member = Member(folder, tuple(s for s in settings if not UNNAMED.match(s)), int(config["seed"]))
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return _said(replace(member, status="failed", message="a process that still runs has its folder"))
        try:
            before = read(folder)
        except DataError as error:
            return _said(replace(member, status="failed", message=str(error)))
        resumes, seconds = member.checkpoint.is_file(), 0.0
        if before is not None and (resumes or before[0].status == "finished"):
            seconds = before[0].seconds
            changed = differences(before[1], public)
            if changed:
                message = f"begun with other settings ({'; '.join(changed)}): delete {folder}, or use another sweep.dir"
                return _said(replace(member, status="failed", message=message))
            if before[0].status == "finished":
                return _said(before[0], "finished before")
        _said(member, f"{'continues' if resumes else 'begins'}, see {folder / LOG}")
        (folder / CONFIG).write_text(text, encoding="utf-8")
        member.write(public)
        begun = time.monotonic()
        code = _process(member, config, lock)
        member = replace(member, status="failed" if code else "finished", seconds=seconds + time.monotonic() - begun)
        return _said(replace(member, message=_last_line(folder / LOG, code) if code else "").write(public))


def _process(member: Member, config: Mapping[str, Any], lock: IO[str]) -> int:
    command = [sys.executable, "-m", "sharpo.cli", "--saved", str(member.folder / CONFIG)]
    if config.get("ckpt") is None or member.checkpoint.is_file():
        command.append("ckpt=auto")
    if "wandb" in (config.get("logger") or {}):
        command += [f"logger.wandb.name={member.folder.name}", f"logger.wandb.group={member.folder.parent.name}"]
    with (member.folder / LOG).open("a", encoding="utf-8") as log:
        # the process holds the lock too: an orphan keeps its folder
        return subprocess.run(  # noqa: S603
            command, stdout=log, stderr=subprocess.STDOUT, pass_fds=[lock.fileno()], check=False
        ).returncode


def _last_line(log: Path, code: int) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error: ")]
    how = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
    return (
        errors[-1].removeprefix("error: ") if errors and code == 2 else f"{how}: {lines[-1] if lines else 'no output'}"
    )


def _said(member: Member, what: str | None = None) -> Member:
    print(f"{member.folder.name}: {what or f'{member.status} {member.message}'.strip()}", flush=True)  # noqa: T201
    return member


def differences(before: Any, after: Any, name: str = "") -> list[str]:
    """Return ``name: before → after`` of each value that differs, without what changes no number.

    Example:
        >>> differences({"seed": 1, "ckpt": None}, {"seed": 2, "ckpt": "auto"})
        ['seed: 1 → 2']
    """
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        return [] if json.loads(json.dumps(after)) == before else [f"{name}: {before} → {after}"]
    keys = [key for key in {**before, **after} if name or key not in NO_RESULT]
    return [d for key in keys for d in differences(before.get(key), after.get(key), f"{name}.{key}" if name else key)]


def last_value(folder: Path, name: str) -> float:
    """Return the newest value that a run logged to its CSV files under a name; NaN when there is none."""
    value = math.nan
    files = sorted(folder.glob("metrics/version_*/metrics.csv"), key=lambda path: int(path.parent.name[8:]))
    for path in files:
        with path.open(newline="", encoding="utf-8") as file:
            values = [row[name] for row in csv.DictReader(file) if row.get(name)]
        value = float(values[-1]) if values else value
    return value


def swept_value(logged: Mapping[str, Any], name: str) -> float | None:
    """Return the newest value of the swept metric; None, said on stderr, when the run never logged it."""
    if name in logged:
        return float(logged[name])
    if not name.startswith("val/") or any(key.startswith("val/") for key in logged):  # else nothing was validated
        near = overrides.near(name, logged)
        print(f"swept={name}: this run logged no such number; nearest: {near}", file=sys.stderr)  # noqa: T201
    return None


def outcome(members: Sequence[Member]) -> str:
    """Return the closing lines: how many finished, and each failure with its message."""
    failed = [member for member in members if member.status == "failed"]
    lines = [f"{len(members) - len(failed)} of {len(members)} members finished"]
    return "\n".join(lines + [f"FAILED {member.folder.name}: {member.message}" for member in failed])


class Sweep:
    """The members of one command, in the order in which they ran."""

    def __init__(self) -> None:
        self.members: list[Member] = []

    def member(self, cfg: DictConfig, folder: Path, settings: Sequence[str]) -> float:
        """Run one member in its folder and return the newest value of ``cfg.swept``."""
        whole = OmegaConf.merge(cfg, {"paths": {"run": str(folder)}})
        config: Any = OmegaConf.to_container(whole, resolve=True)
        self.members.append(run_member(folder, settings, OmegaConf.to_yaml(whole), config))
        return last_value(folder, config["swept"])


def saved(path: str, *settings: str) -> DictConfig:
    """Read a whole configuration from a YAML file; ``a.b=v`` settings change values of it."""
    cfg = OmegaConf.merge(OmegaConf.load(path), OmegaConf.from_dotlist(list(settings)))
    OmegaConf.resolve(cfg)
    assert isinstance(cfg, DictConfig)
    return cfg
