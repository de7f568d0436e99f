"""Judge a checkpoint or a model folder: `python eval.py experiment=household_demo model.path=runs/models/mine`."""

import importlib.util
import sys

if __name__ == "__main__":
    if importlib.util.find_spec("sharpo") is None or importlib.util.find_spec("sharpo.configs") is None:
        sys.exit("sharpo is not installed here: run `make setup`, or `pip install -e .` in this folder")
    from sharpo.cli import evaluate, main

    main(evaluate, "eval")
