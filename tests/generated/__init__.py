"""Generated training programs with a truth established by running them: see `generate.py` and `execute.py`."""
