"""Builders of episodes and groups."""

from __future__ import annotations

import pytest
from made import Made


@pytest.fixture
def made():
    return Made()
