"""The rules of docs/road.md as tests: who imports whom, how long files are, what `import sharpo` loads."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE_FILES = sorted([*ROOT.glob("sharpo/**/*.py"), *ROOT.glob("envs/**/*.py"), *ROOT.glob("callbacks/**/*.py")])

# third-party package -> files or folders (ending in /) that may import it
ONLY = {
    "vllm": ["sharpo/engine/vllm.py"],
    "transformers": ["sharpo/policy/", "sharpo/engine/hf.py", "sharpo/rollout/render.py", "envs/searchqa/encoder.py"],
    "faiss": ["envs/searchqa/dense.py"],
    "tokenizers": ["sharpo/policy/"],
    "lightning": ["sharpo/module.py", "sharpo/rollout/datamodule.py", "callbacks/", "sharpo/cli.py"],
    "hydra": ["sharpo/cli.py"],
    "omegaconf": ["sharpo/cli.py", "sharpo/sweep.py"],
    "wandb": ["callbacks/"],
    "gymnasium": ["sharpo/env.py", "envs/"],
    "textworld": ["envs/"],
    "alfworld": ["envs/"],
    "matplotlib": ["callbacks/", "sharpo/compare.py", "sharpo/credit_check.py", "sharpo/demo.py"],
}

# part of the package -> the parts of sharpo it may import
ALLOWED = {
    "sharpo/shapes.py": set(),
    "sharpo/seeding.py": set(),
    "sharpo/errors.py": set(),
    "sharpo/ranges.py": {"errors"},
    "sharpo/stats.py": set(),
    "sharpo/functional/": {"shapes", "functional"},
    "sharpo/episode.py": set(),
    "sharpo/env.py": {"episode", "errors"},
    "sharpo/segments.py": {"shapes"},
    "sharpo/batch.py": {"shapes"},
    "sharpo/protocols.py": {"env", "episode"},
    "sharpo/algorithms/": {
        "algorithms", "functional", "batch", "segments", "episode", "shapes", "errors", "ranges",
    },
    "sharpo/policy/": {"policy", "functional", "batch", "shapes", "errors", "seeding", "ranges"},
    "sharpo/hints/": {"hints", "protocols", "episode", "errors", "seeding", "ranges"},
    "sharpo/engine/": {"engine", "protocols", "env", "episode", "errors", "seeding", "shapes", "ranges"},
    "sharpo/rollout/": {
        "rollout", "engine", "hints", "protocols", "env", "episode", "segments", "batch", "algorithms", "errors",
        "seeding", "shapes", "ranges",
    },
    "sharpo/scoring.py": {"algorithms", "batch", "segments", "functional", "engine", "policy", "rollout", "errors"},
    "sharpo/control.py": {"batch", "functional", "rollout", "scoring", "seeding"},
    "sharpo/update.py": {"algorithms", "batch"},
    "sharpo/module.py": {
        "algorithms", "batch", "segments", "engine", "policy", "scoring", "update", "rollout", "errors",
    },
    "sharpo/metrics.py": {"episode"},
    "envs/": {"env", "envs", "episode", "errors", "seeding"},
    "callbacks/": {
        "callbacks", "metrics", "stats", "episode", "batch", "errors", "control", "scoring", "functional", "ranges",
    },
}  # fmt: skip


def imported(path: Path) -> set[str]:
    """Every absolute module name that a file imports anywhere, type-checking blocks included."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write the full name"
            names.add(node.module or "")
            if node.module == "sharpo":
                names |= {f"sharpo.{alias.name}" for alias in node.names}
    return names


def lies_in(relative: str, places: list[str]) -> bool:
    return any(relative == place or (place.endswith("/") and relative.startswith(place)) for place in places)


@pytest.mark.parametrize("path", PACKAGE_FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_follow_the_road(path: Path):
    relative = str(path.relative_to(ROOT))
    modules = imported(path)
    for package, places in ONLY.items():
        if any(name == package or name.startswith(f"{package}.") for name in modules):
            assert lies_in(relative, places), f"{relative} imports {package}; only {places} may"
    assert not {name.split(".")[0] for name in modules} & {"envs", "callbacks", "configs"}, f"{relative}: use sharpo.*"
    if relative.startswith("sharpo/"):
        parts_by_target = {name for name in modules if re.match(r"sharpo\.(envs|callbacks|configs)\b", name)}
        assert not parts_by_target, f"{relative} imports {parts_by_target}; a _target_ or a name as text reaches them"
    for place, parts in ALLOWED.items():
        if not lies_in(relative, [place]):
            continue
        used = {name.split(".")[1] for name in modules if name.startswith("sharpo.")}
        assert used <= parts, f"{relative} imports sharpo.{sorted(used - parts)}; allowed: {sorted(parts)}"


@pytest.mark.parametrize("path", PACKAGE_FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_stay_short(path: Path):
    limit = 220 if path == ROOT / "sharpo" / "module.py" else 300
    lines = len(path.read_text().splitlines())
    assert lines <= limit, f"{path.relative_to(ROOT)} has {lines} lines, the limit is {limit}"


def test_median_file_is_small():
    sizes = sorted(len(path.read_text().splitlines()) for path in PACKAGE_FILES if path.name != "__init__.py")
    assert sizes[len(sizes) // 2] <= 120


def test_import_sharpo_is_silent_and_light():
    code = (
        "import sharpo, sharpo.episode, sharpo.seeding, sys;"
        "heavy = {'torch', 'vllm', 'transformers', 'wandb', 'lightning', 'textworld'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_no_model_folder_may_run_code_of_its_own():
    """transformers asks at a terminal, or downloads, unless every call says no."""
    found = 0
    for path in PACKAGE_FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
            if name == "from_pretrained" and ast.unparse(node.func).startswith("Auto"):
                found += 1
                said = {word.arg: ast.unparse(word.value) for word in node.keywords}
                assert said.get("trust_remote_code") == "False", f"{path}:{node.lineno}"
    assert found > 5


def test_the_module_knows_no_algorithm_environment_or_engine():
    text = (ROOT / "sharpo" / "module.py").read_text()
    for word in ("grpo", "Grpo", "household", "alfworld", "vllm", "hydra", "wandb", "tokenizer"):
        assert word not in text, f"module.py mentions {word}"


def test_the_wheel_owns_one_name_and_carries_its_data(tmp_path: Path):
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path),
         str(ROOT)],
        check=True,
    )  # fmt: skip
    listing = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", str(next(tmp_path.glob("*.whl")))], capture_output=True, text=True,
        check=True,
    ).stdout  # fmt: skip
    files = [line.split()[0] for line in listing.splitlines()[1:]]
    assert {name.split("/")[0].split("-")[0] for name in files} == {"sharpo"}
    for wanted in (
        "sharpo/configs/train.yaml",
        "sharpo/envs/household.py",
        "sharpo/envs/webshop/html/play.html",
        "sharpo/callbacks/success_by_family.py",
    ):
        assert wanted in files
