"""No hint: the teacher would see what the student sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from sharpo.episode import EpisodeGroup
from sharpo.protocols import Hint


class NoHint:
    """Builds no hint for any episode."""

    absent: ClassVar[str] = "hint=none shows nothing"
    """Why there is none, in words."""

    def build(
        self, group: EpisodeGroup, member: int, tokenize: Callable[[str], list[int]], room: int | None = None
    ) -> Hint | None:
        """Return None."""
        del group, member, tokenize, room
        return None
