"""A logger that cannot start is one message; any other fault of a logger stays what it is."""

import pytest

from sharpo.errors import ConfigError
from sharpo.logged import tell


class Broken:
    def __init__(self, error):
        self.error = error

    def log_hyperparams(self, settings):
        raise self.error


def test_wandb_without_a_login_says_what_to_do():
    wandb = pytest.importorskip("wandb", reason="W&B is an optional part")
    with pytest.raises(ConfigError, match=r"logger=wandb cannot start \(no API key\): log in once with `wandb login`"):
        tell([Broken(wandb.errors.UsageError("no API key"))], {})


def test_other_faults_are_not_hidden():
    with pytest.raises(OSError, match="disk full"):
        tell([Broken(OSError("disk full"))], {})
