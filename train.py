"""Train an agent: `python train.py experiment=household_demo`."""

import importlib.util
import sys

if __name__ == "__main__":
    if importlib.util.find_spec("sharpo") is None or importlib.util.find_spec("sharpo.configs") is None:
        sys.exit("sharpo is not installed here: run `make setup`, or `pip install -e .` in this folder")
    from sharpo.cli import main

    main()
