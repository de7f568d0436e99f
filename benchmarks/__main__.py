"""The ratios of docs/benchmarks.md, one after the other: ``python -m benchmarks [train.py overrides]``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sharpo.installed import require

HERE = Path(__file__).resolve().parent
FEW = ("data.sizes.groups=6", "data.sizes.group_size=6", "data.sizes.passes=1")
SCRIPTS = {"rollout_efficiency.py": (), "update_overhead.py": (), "method_cost.py": FEW}
"""Each with settings that go before those of the command line."""


def main(overrides: list[str]) -> int:
    """Run every benchmark in its own process and return the first exit code that is not 0."""
    for name, settings in SCRIPTS.items():
        print(" ".join([f"benchmarks/{name}", *settings]), flush=True)
        code = subprocess.run([sys.executable, str(HERE / name), *settings, *overrides], check=False).returncode
        if code:
            return code
        print(flush=True)
    return 0


if __name__ == "__main__":
    require()
    raise SystemExit(main(sys.argv[1:]))
