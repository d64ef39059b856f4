"""The effective settings, as `--show-settings` prints them."""

from __future__ import annotations

from accumlint.cli.settings import Settings


def settings_text(settings: Settings) -> str:
    """One setting a line, in the words of the configuration."""
    shown = {
        "configuration": settings.config_file or "none",
        "paths": list(settings.paths),
        "rules": sorted(settings.codes),
        "per-file-ignores": {pattern: list(codes) for pattern, codes in settings.ignores_shown.items()},
        "exclude": "the usual ones" if settings.exclude is None else list(settings.exclude),
        "extend-exclude": list(settings.extend_exclude),
        "force-exclude": settings.force_exclude,
        "respect-gitignore": settings.respect_gitignore,
        "output-format": settings.output_format,
        "fix": settings.fix,
        "unsafe-fixes": settings.unsafe_fixes,
        "strategy": settings.strategy,
        "require": settings.require or "safe",
        "loss-contracts": {each.pattern: each.count or each.reduction for each in settings.loss_contracts},
        "extend-safe-fixes": sorted(settings.safe_codes),
        "extend-unsafe-fixes": sorted(settings.unsafe_codes),
        "baseline": settings.baseline or "none",
        "cache-dir": settings.cache_dir or "none",
    }
    return "".join(f"{name} = {_value(value)}\n" for name, value in shown.items())


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
