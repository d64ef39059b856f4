"""The commands, one file each: a module `NAME.py` with a click command called `command` becomes `accumlint NAME`."""
