"""SHARPO: segment-level hindsight credit for multi-turn agents, on PyTorch Lightning.

Importing the package is silent and light; import the part you need from its module.
"""

__version__ = "0.1.0"
