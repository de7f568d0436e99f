"""The shrunk run of tests/lightning."""

import importlib.util
from pathlib import Path

_path = Path(__file__).resolve().parent.parent / "lightning/conftest.py"
_spec = importlib.util.spec_from_file_location("shrunk_run", _path)
assert _spec is not None
assert _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
small, parts, fit = _module.small, _module.parts, _module.fit
