"""The `parameters` of a row, parsed once, and the binding of a call's arguments to them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias, TypeVar

T = TypeVar("T")
EXTRA_POSITIONAL = "*"
"""Where `bind` records positional arguments that the signature has no room for."""
EXTRA_KEYWORDS = "**"
"""Where `bind` records keyword arguments that the signature does not know."""


class SignatureError(ValueError):
    """A row's `parameters` cannot be read: a fault of the table, not of the user's code."""


@dataclass(frozen=True, slots=True)
class Default:
    """The default of a parameter that the call leaves out: a literal, or the dotted name of a library constant."""

    value: object


Bound: TypeAlias = T | Default | tuple[T, ...] | dict[str, T]
"""One bound parameter: the argument, its default, `*args` as a tuple or `**kwargs` as a dictionary."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """`keyword_only` stands after `*`; `default` is None where the parameter is required."""

    name: str
    default: Default | None = None
    keyword_only: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """Parameters in order. `rest` and `keywords` are the names of `*args` and `**kwargs`, without stars."""

    parameters: tuple[Parameter, ...]
    rest: str | None = None
    keywords: str | None = None

    @property
    def names(self) -> frozenset[str]:
        """What an `Arg` may name: parameters, and `*args` / `**kwargs` spelled with their stars."""
        starred = {f"*{self.rest}"} if self.rest else set()
        if self.keywords:
            starred.add(f"**{self.keywords}")
        return frozenset({parameter.name for parameter in self.parameters} | starred)

    def bind(self, positional: Sequence[T], keywords: Mapping[str, T]) -> dict[str, Bound[T]]:
        """Map each parameter to its argument, or to its default; a required one that is missing is absent.

        Args:
            positional: the positional arguments in order, without the receiver of a method.
            keywords: the arguments given by name.

        Returns:
            One entry for each parameter that has a value. `*args` and `**kwargs` are always present under their
            starred names; what fits nowhere is kept under "*" and "**" (a newer release, a mistake of the user).
        """
        left = dict(keywords)
        given = list(positional)
        taken = 0
        bound: dict[str, Bound[T]] = {}
        for parameter in self.parameters:
            if taken < len(given) and not parameter.keyword_only:
                bound[parameter.name] = given[taken]
                taken += 1
                if left:
                    left.pop(parameter.name, None)
            elif parameter.name in left:
                bound[parameter.name] = left.pop(parameter.name)
            elif parameter.default is not None:
                bound[parameter.name] = parameter.default
        if self.rest or taken < len(given):
            bound[f"*{self.rest}" if self.rest else EXTRA_POSITIONAL] = tuple(given[taken:])
        if self.keywords or left:
            bound[f"**{self.keywords}" if self.keywords else EXTRA_KEYWORDS] = left
        return bound


@cache
def parse_signature(parameters: str) -> Signature:
    """Parse what stands between the parentheses of a `def`.

    Raises:
        SignatureError: it is not a parameter list, or a default is neither a literal nor a dotted name.
    """
    try:
        function = ast.parse(f"def f({parameters}): ...").body[0]
    except SyntaxError as error:
        raise SignatureError(f"not a parameter list: {parameters!r}") from error
    if not isinstance(function, ast.FunctionDef):
        raise SignatureError(f"not a parameter list: {parameters!r}")
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    parsed = [Parameter(a.arg, _default(d, parameters)) for a, d in zip(plain, defaults, strict=True)]
    parsed += [
        Parameter(a.arg, _default(d, parameters), keyword_only=True)
        for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    rest = given.vararg.arg if given.vararg else None
    return Signature(tuple(parsed), rest, given.kwarg.arg if given.kwarg else None)


def _default(node: ast.expr | None, parameters: str) -> Default | None:
    if node is None:
        return None
    try:
        return Default(ast.literal_eval(node))
    except ValueError:
        if isinstance(node, (ast.Name, ast.Attribute)):
            return Default(ast.unparse(node))
        raise SignatureError(f"a default is neither literal nor name: {parameters!r}") from None
