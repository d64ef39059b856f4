"""Binding of call arguments to a row's parameters."""

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accumlint.apis.signature import Default, SignatureError, parse_signature

NAMES = st.lists(st.sampled_from("abcdef"), unique=True, max_size=4)


@pytest.mark.parametrize(
    ("parameters", "positional", "keywords", "bound"),
    [
        pytest.param("a, b=2", [10], {}, {"a": 10, "b": Default(2)}, id="default"),
        pytest.param("a, b=2", [], {"b": 3}, {"b": 3}, id="missing required is absent"),
        pytest.param("*args, k=1", [1, 2], {}, {"*args": (1, 2), "k": Default(1)}, id="rest"),
        pytest.param("a, **kwargs", [1], {"z": 9}, {"a": 1, "**kwargs": {"z": 9}}, id="keywords"),
        pytest.param("a", [1, 2], {}, {"a": 1, "*": (2,)}, id="too many positionals are kept"),
        pytest.param("a", [1], {"z": 2}, {"a": 1, "**": {"z": 2}}, id="unknown keyword is kept"),
        pytest.param("a, *, b=-100", [1, 2], {}, {"a": 1, "b": Default(-100), "*": (2,)}, id="keyword only"),
        pytest.param("op=torch.x.SUM", [], {}, {"op": Default("torch.x.SUM")}, id="a dotted name is a default"),
        pytest.param("a=...", [], {}, {"a": Default(...)}, id="a default that is no literal"),
        pytest.param("", [], {}, {}, id="nothing"),
    ],
)
def test_binds(
    parameters: str, positional: list[object], keywords: dict[str, object], bound: dict[str, object]
) -> None:
    assert parse_signature(parameters).bind(positional, keywords) == bound


@pytest.mark.parametrize("parameters", ["a b", "a=f()", "a,, b"])
def test_refuses(parameters: str) -> None:
    with pytest.raises(SignatureError):
        parse_signature(parameters)


@given(NAMES, st.booleans(), st.booleans(), st.integers(0, 5), st.sets(st.sampled_from("abcdefz")))
def test_agrees_with_inspect(names: list[str], rest: bool, more: bool, count: int, keywords: set[str]) -> None:
    """Where Python accepts the call, both bind it alike."""
    parts = [*(f"{name}=0" for name in names), *(["*args"] if rest else []), *(["**kwargs"] if more else [])]
    text = ", ".join(parts)
    namespace: dict[str, object] = {}
    exec(f"def f({text}): ...", namespace)
    positional, given_keywords = list(range(1, count + 1)), dict.fromkeys(keywords, 99)
    try:
        expected = inspect.signature(namespace["f"]).bind(*positional, **given_keywords)  # type: ignore[arg-type]
    except TypeError:
        return
    bound = parse_signature(text).bind(positional, given_keywords)
    seen = {name: value for name, value in bound.items() if not isinstance(value, Default) and value not in ((), {})}
    wanted = {{"args": "*args", "kwargs": "**kwargs"}.get(k, k): v for k, v in expected.arguments.items()}
    assert seen == {k: v for k, v in wanted.items() if v not in ((), {})}
