"""SHARPO: segment-level hindsight credit for multi-turn agents, on PyTorch Lightning.

Importing the package is silent and light; import the part you need from its module.
"""

import sys

__version__ = "0.1.0"

if sys.argv[:1] == ["-m"]:  # `python -m sharpo.x`, before x and what it needs are imported
    from sharpo.installed import require

    require()
