"""The pytest plugin: fixtures `accumcheck` and `assert_equivalent`, marker `accumcheck(**options)`.

    @pytest.mark.accumcheck(accumulation_steps=4, max_norm=1.0)
    def test_my_loop(assert_equivalent):
        assert_equivalent(train, model, microbatches, loss_sum=loss_sum, count=count)

Loaded in every pytest run where accumlint is installed, so it imports torch only when a fixture is used.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from accumlint.harness import MISSING_TORCH


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "accumcheck(**options): options for the fixtures `accumcheck` and `assert_equivalent` (dtype, max_norm, ...)",
    )


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the options of all markers; the closest to the test wins."""
    pytest.importorskip("torch", reason=MISSING_TORCH)
    options: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("accumcheck"))):
        if marker.args:
            raise pytest.UsageError("the marker accumcheck takes keyword arguments only")
        options.update(marker.kwargs)
    return options


@pytest.fixture
def accumcheck(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`accumlint.harness.accumcheck`, with the options of the marker; returns the report."""
    options = _options(request)
    from accumlint.harness.check import accumcheck as check

    options.pop("complete", None)
    return functools.partial(check, **options)


@pytest.fixture
def assert_equivalent(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`accumlint.harness.assert_equivalent`, with the options of the marker."""
    options = _options(request)
    from accumlint.harness.assertion import assert_equivalent as check

    return functools.partial(check, **options)
