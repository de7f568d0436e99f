"""How long the engine's next step waits for environments: quick ones join it, slow ones do not hold it up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Patience:
    """A step of the engine costs much the same with few requests as with many, so a short wait for answers pays.

    Waiting w seconds delays each of n requests in flight by w; each of k answers that join gains up to a step. So a
    wait lasts at most ``share`` · step · k / (n + k), and ends when all have answered. Where less than half of the
    answers came within it, the environments are slow, and the next ``rest`` steps wait for none.

    Args:
        share: of the gain that may be spent, in [0, 1]; 0 = never wait.
        rest: steps without a wait after one that was in vain.
    """

    share: float = 0.5
    rest: int = 16
    _step_s: float = 0.0
    _resting: int = 0
    _asked: int = 0

    def stepped(self, seconds: float) -> None:
        """Note how long the engine's last step took."""
        self._step_s = seconds

    def limit(self, asked: int, in_flight: int) -> float:
        """Return the most seconds to wait for ``asked`` environments while ``in_flight`` requests stand still.

        Example:
            >>> patience = Patience(share=0.5)
            >>> patience.stepped(0.02)
            >>> patience.limit(asked=32, in_flight=96), patience.limit(asked=0, in_flight=96)
            (0.0025, 0.0)
        """
        self._asked = 0 if self._resting else asked
        self._resting = max(self._resting - 1, 0)
        return self.share * self._step_s * self._asked / max(asked + in_flight, 1)

    def waited(self, left: int) -> None:
        """Note how many of the environments that were waited for have still not answered."""
        if self._asked and 2 * left > self._asked:
            self._resting = self.rest
