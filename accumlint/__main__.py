"""`python -m accumlint`, which imports nothing from the folder it is called in: that may hold a `click.py`."""

import os
import sys


def _leave_folder() -> None:
    """Take what `-m` puts first off the path; it goes last where accumlint itself is found through it."""
    if getattr(sys.flags, "safe_path", False) or not sys.path:
        return
    folder = sys.path.pop(0)
    if os.path.samefile(folder or os.curdir, os.path.join(os.path.dirname(__file__), os.pardir)):
        sys.path.append(folder)


if __name__ == "__main__":
    _leave_folder()
    from accumlint.cli.main import main

    main()
