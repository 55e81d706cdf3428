"""The old path of bootstrap/clouds/local/processes.py: recorded `stop` commands name it."""

import runpy
from pathlib import Path

if __name__ == "__main__":
    moved = Path(__file__).resolve().parent / "clouds" / "local" / "processes.py"
    runpy.run_path(str(moved), run_name="__main__")
