"""Errors meant for the user: one message that names the field, the value and the remedy. The CLI prints them bare."""

from __future__ import annotations


class SharpoError(Exception):
    """Base of all errors that the user can mend; its message stands alone."""


class ConfigError(SharpoError):
    """A setting is missing, misspelt, out of range, or cannot be honoured by the chosen parts."""


class DataError(SharpoError):
    """Data, a model or a checkpoint is absent, empty or of another kind."""


class EngineError(SharpoError):
    """A rollout engine cannot be started or cannot do what was asked."""


class GateError(SharpoError):
    """Engine and trainer disagree about log-probabilities: the weights inside the engine are not the trainer's."""
