"""What one run does: flags laid over the configuration, checked and frozen."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accumlint.cli import config
from accumlint.cli.config import Configuration
from accumlint.cli.errors import UsageError
from accumlint.cli.rules import default_codes, known_codes
from accumlint.cli.selection import Layer, PerFileIgnores, check_prefixes, choose
from accumlint.reading.contracts import LossContract
from accumlint.report.formats import FORMATS

CACHE = ".accumlint_cache"
CACHE_VARIABLE = "ACCUMLINT_CACHE_DIR"


@dataclass(frozen=True, slots=True)
class Settings:
    """The effective settings of `check`; `--show-settings` prints them."""

    paths: tuple[str, ...]
    codes: frozenset[str]
    per_file_ignores: PerFileIgnores
    ignores_shown: Mapping[str, tuple[str, ...]]
    exclude: tuple[str, ...] | None
    extend_exclude: tuple[str, ...]
    force_exclude: bool
    respect_gitignore: bool
    output_format: str
    output_file: Path | None
    fix: bool
    unsafe_fixes: bool
    diff: bool
    confirm: bool
    strategy: str
    require: str | None
    loss_contracts: tuple[LossContract, ...]
    safe_codes: frozenset[str]
    unsafe_codes: frozenset[str]
    stdin_filename: str
    baseline: Path | None
    root: Path
    config_file: Path | None
    cache_dir: Path | None = None  # None: no cache
    verbose: int = 0
    quiet: int = 0
    flags: Mapping[str, Any] = field(default_factory=dict)

    @property
    def repairs(self) -> bool:
        """Whether repairs have to be planned and proved at all."""
        return self.fix or self.diff or self.confirm or FORMATS[self.output_format].repairs

    @property
    def confirms(self) -> bool:
        """Whether repairs are also executed with torch: where they may be applied, and on request."""
        return self.fix or self.diff or self.confirm


NO_FLAGS: Mapping[str, Any] = {
    **dict.fromkeys(
        ("fix", "unsafe_fixes", "strategy", "require", "output_format", "output_file", "force_exclude", "baseline")
    ),
    **dict.fromkeys(("respect_gitignore", "stdin_filename", "per_file_ignores", "color", "jobs", "config")),
    **dict.fromkeys(("exclude", "extend_exclude", "paths", "select", "extend_select", "ignore"), ()),
    **dict.fromkeys(("diff", "confirm", "exit_zero", "exit_non_zero_on_fix", "statistics", "add_noqa"), False),
    **dict.fromkeys(("show_files", "show_settings", "write_baseline", "isolated", "ignore_noqa"), False),
    "no_cache": True,
    "cache_dir": None,
    **dict.fromkeys(("verbose", "quiet"), 0),
}
"""The flags of `check` where none is given, for the faces that have no command line."""


def gather(flags: Mapping[str, Any]) -> Settings:
    """The settings from the flags of `check` and the configuration that they lead to."""
    _refuse_conflicts(flags)
    known = known_codes()
    configuration = _configuration(flags, known)
    paths: tuple[str, ...] = flags["paths"] or (".",)
    fix = _either(flags["fix"], configuration.get("fix", False))
    ignores = {**configuration.get("per-file-ignores", {}), **_pairs(flags["per_file_ignores"], known)}
    named = configuration.get("baseline")
    return Settings(
        paths=paths,
        codes=_codes(flags, configuration, known),
        per_file_ignores=PerFileIgnores(ignores, configuration.root),
        ignores_shown=ignores,
        exclude=_split(flags["exclude"]) or configuration.get("exclude"),
        extend_exclude=(*configuration.get("extend-exclude", ()), *_split(flags["extend_exclude"])),
        force_exclude=_either(flags["force_exclude"], configuration.get("force-exclude", False)),
        respect_gitignore=_either(flags["respect_gitignore"], configuration.get("respect-gitignore", True)),
        output_format=flags["output_format"] or configuration.get("output-format", "full"),
        output_file=Path(flags["output_file"]) if flags["output_file"] else None,
        fix=fix and not flags["diff"],
        unsafe_fixes=_either(flags["unsafe_fixes"], configuration.get("unsafe-fixes", False)),
        diff=flags["diff"],
        confirm=flags["confirm"],
        strategy=flags["strategy"] or configuration.get("strategy", "auto"),
        require=flags["require"] or configuration.get("require"),
        loss_contracts=configuration.get("loss-contracts", ()),
        safe_codes=choose([Layer(configuration.get("extend-safe-fixes", ()))], frozenset(), known),
        unsafe_codes=choose([Layer(configuration.get("extend-unsafe-fixes", ()))], frozenset(), known),
        stdin_filename=flags["stdin_filename"] or "-",
        baseline=_path(flags["baseline"]) or (_inside(configuration, "baseline", named) if named else None),
        root=configuration.root,
        config_file=configuration.path,
        cache_dir=None if flags["no_cache"] else cache_folder(flags["cache_dir"], configuration),
        verbose=flags["verbose"],
        quiet=flags["quiet"],
        flags=flags,
    )


def _refuse_conflicts(flags: Mapping[str, Any]) -> None:
    """Flags of which one would have no effect, or change files although another one says that nothing changes."""
    for name, others in CONFLICTS.items():
        for other in others:
            if flags[name] and flags[other]:
                raise UsageError(f"--{name} and --{other} exclude each other".replace("_", "-"))


CONFLICTS = {
    "isolated": ("config",),
    "add_noqa": ("fix", "diff", "write_baseline", "ignore_noqa"),
    "write_baseline": ("diff",),
}


def cache_folder(flag: str | None, configuration: Configuration) -> Path:
    """The folder of the cache: the flag, then the environment, then the configuration, then `.accumlint_cache`.

    Raises UsageError for a configuration that leads out of its project: what is checked must not say where to write.
    """
    given = flag or os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given)
    return _inside(configuration, "cache-dir", configuration.get("cache-dir", CACHE))


def _inside(configuration: Configuration, key: str, named: str) -> Path:
    """A path that the configuration names. Raises UsageError for one outside of the project."""
    root = configuration.root.resolve()
    path = root / named
    if not path.resolve().is_relative_to(root):
        raise UsageError(f'{configuration.path}: {key}: "{named}" is not inside of {root}')
    return path


def _configuration(flags: Mapping[str, Any], known: frozenset[str]) -> Configuration:
    if flags["isolated"]:
        return Configuration()
    if flags["config"]:
        return config.read(Path(flags["config"]), known)
    found = config.find(_start(flags))
    return config.read(found, known) if found else Configuration()


def _start(flags: Mapping[str, Any]) -> Path:
    """Where the search for pyproject.toml begins: the folder that holds all paths, as a user expects of one run."""
    shown = [flags["stdin_filename"] or "." if path == "-" else path for path in flags["paths"] or (".",)]
    folders = [path if path.is_dir() else path.parent for path in (Path(text).absolute() for text in shown)]
    common = folders[0]
    for folder in folders[1:]:
        while common != folder and common not in folder.parents:
            common = common.parent
    return common


def _codes(flags: Mapping[str, Any], configuration: Configuration, known: frozenset[str]) -> frozenset[str]:
    flag_select = _split(flags["select"])
    if flags["select"] and not flag_select:
        raise UsageError("--select: no rule code is given; ALL stands for every rule")
    layers = [
        Layer(configuration.get("select"), configuration.get("extend-select", ()), configuration.get("ignore", ())),
        Layer(
            check_prefixes(flag_select, known, "--select") if flags["select"] else None,
            check_prefixes(_split(flags["extend_select"]), known, "--extend-select"),
            check_prefixes(_split(flags["ignore"]), known, "--ignore"),
        ),
    ]
    return choose(layers, default_codes(), known)


def _pairs(text: str | None, known: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """`--per-file-ignores 'tests/**:ACC1,*.ipynb:ACC404'` as a table."""
    pairs: dict[str, tuple[str, ...]] = {}
    for item in _split(text):
        pattern, colon, code = item.rpartition(":")
        if not colon or not pattern:
            raise UsageError(f'--per-file-ignores: expected PATTERN:CODE, not "{item}"')
        pairs[pattern] = (*pairs.get(pattern, ()), *check_prefixes([code], known, "--per-file-ignores"))
    return pairs


def _split(value: str | tuple[str, ...] | None) -> tuple[str, ...]:
    texts = (value,) if isinstance(value, str) else value or ()
    return tuple(item.strip() for text in texts for item in text.split(",") if item.strip())


def _either(flag: bool | None, otherwise: bool) -> bool:
    return otherwise if flag is None else flag


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None
