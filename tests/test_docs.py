"""Docs are checked: every path, module, script and make target named exists, every command composes."""

import functools
import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sharpo import checks, cli, overrides

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FOLDERS = r"(?:sharpo|envs|callbacks|configs|tests|benchmarks|docs|notebooks|\.ci)"
PATH = re.compile(rf"`({FOLDERS}/[\w./-]+|[\w-]+\.(?:py|toml))`")
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
COMMAND = re.compile(r"(?:^|`)\s*(?:\$ )?(?:\.venv/bin/)?python (train|eval)\.py([^`\n]*)", re.MULTILINE)
MODULE = re.compile(r"python -m (sharpo(?:\.\w+)+)")
SCRIPT = re.compile(r"python (benchmarks/\w+\.py)")
TARGET = re.compile(r"\bmake ([a-z]\w*)")
# these answer --help; the others take train.py's settings alone
HELPFUL = {"sharpo.credit_check", "sharpo.hint_preview", "sharpo.cli"}
BY_HYDRA = {"sharpo.cli"}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_paths_named_in_docs_exist(page: Path):
    text = page.read_text()
    missing = [name for name in PATH.findall(text) if not (ROOT / name).exists() and "mine" not in name]
    missing += [
        link
        for link in LINK.findall(text)
        if not link.startswith(("http://", "https://", "mailto:")) and not (page.parent / link).exists()
    ]
    assert not missing, f"{page.relative_to(ROOT)} names what does not exist: {missing}"


def commands(program: str) -> list[str]:
    """Every `python train.py ...` (or eval.py) of the docs, once, comments and continuation lines resolved."""
    found: dict[str, None] = {}
    for page in PAGES:
        text = page.read_text().replace("\\\n", " ")
        for script, rest in COMMAND.findall(text):
            if script == program and "…" not in rest and "mine" not in rest:
                found[rest.split("#")[0].strip()] = None
    return list(found)


@pytest.mark.parametrize("arguments", commands("eval"))
def test_eval_commands_of_the_docs_compose(arguments: str):
    parts = cli.OmegaConf.to_container(cli.read("eval", shlex.split(arguments)), resolve=True)
    checks.check_values(parts)


@pytest.fixture(scope="module")
def hydra(tmp_path_factory):
    """Run train.py where Hydra drives it, once for the same words: ``hydra(*words)`` -> what it said."""

    @functools.cache
    def run(*words: str) -> str:
        folder = tmp_path_factory.mktemp("hydra")
        command = [sys.executable, str(ROOT / "train.py"), *words, f"paths.root={folder}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        assert done.returncode == 0, f"train.py {words}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        return done.stdout

    return run


def with_processes(words, starts) -> list:
    """The parameters; those whose command is a process of its own belong to the integration tier."""
    return [pytest.param(x, marks=[pytest.mark.integration] if starts(x) else []) for x in words]


@pytest.mark.parametrize(
    "arguments", with_processes(commands("train"), lambda words: overrides.wants_hydra(shlex.split(words)))
)
def test_train_commands_of_the_docs_compose(arguments: str, hydra, tmp_path: Path, monkeypatch, capsys):
    words = [word for word in shlex.split(arguments) if word not in ("--multirun", "-m")]
    words = [word.split(",")[0] if "=" in word and not set("[{") & set(word) else word for word in words]
    words = [word for word in words if not word.startswith(("debug=", "ckpt="))]
    words.append("debug=plan")
    if overrides.wants_hydra(words):
        if any(word.startswith("hparams_search=") for word in words):  # one member of the search is enough
            given = [word.partition("=")[0] for word in words]
            words += [f"{key}={value}" for key, value in {"algorithm": "grpo", "seed": 0}.items() if key not in given]
        said = hydra(*sorted(words))
    else:  # what train.py does, without a process of its own
        monkeypatch.chdir(tmp_path)
        cli.train(cli.read("train", [*words, f"paths.root={tmp_path}"]))
        said = capsys.readouterr().out
    assert "plan of" in said


def named(pattern: re.Pattern[str]) -> list[str]:
    """Everything a pattern finds in code of the pages and of the Makefile, once."""
    texts = [page.read_text() for page in PAGES] + [(ROOT / "Makefile").read_text().replace("$(RUN)", "python")]
    return sorted({found for text in texts for found in pattern.findall(text)})


def code_of(page: Path) -> str:
    """The fenced blocks and the inline code of a page."""
    text = page.read_text()
    fenced = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    return "\n".join([*fenced, *re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))])


@pytest.mark.parametrize("module", with_processes(named(MODULE), lambda module: module == "sharpo.cli"))
def test_modules_of_the_docs_can_be_run(module: str, monkeypatch, capsys):
    found = importlib.util.find_spec(module)
    assert found is not None, f"python -m {module}: there is no such module"
    assert found.origin is not None
    assert '__name__ == "__main__"' in Path(found.origin).read_text(), f"python -m {module} would do nothing"
    if module not in HELPFUL:
        return
    if module in BY_HYDRA:  # which sets up the logging of its process
        command = [sys.executable, "-m", module, "--help"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        code, out, err = done.returncode, done.stdout, done.stderr
    else:
        monkeypatch.setattr("sys.argv", [module, "--help"])
        with pytest.raises(SystemExit) as end:
            importlib.import_module(module).main()
        code, (out, err) = end.value.code, capsys.readouterr()
    assert code == 0, err
    assert len(out) > 100
    assert err == ""


def test_scripts_of_the_docs_exist():
    missing = [name for name in named(SCRIPT) if not (ROOT / name).is_file()]
    assert not missing


def test_make_targets_of_the_docs_exist():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    for page in PAGES:
        unknown = set(TARGET.findall(code_of(page))) - targets
        assert not unknown, f"{page.relative_to(ROOT)} names make {unknown}; the Makefile has {sorted(targets)}"
    phony = re.search(r"^\.PHONY:(.*)$", makefile, re.MULTILINE)
    assert phony
    assert set(phony.group(1).split()) == targets
