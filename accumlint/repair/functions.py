"""The function that a call calls, as text: of the file itself, or of another one of its project."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from accumlint.reading.project import project_of

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Called:
    """A plain function at the top level of `tree`, the module of `filename`."""

    tree: ast.Module
    filename: str
    function: ast.FunctionDef

    @property
    def parameters(self) -> list[str]:
        """Those that may be passed by position."""
        arguments = self.function.args
        return [each.arg for each in (*arguments.posonlyargs, *arguments.args)]

    @property
    def defaults(self) -> dict[str, ast.expr]:
        arguments, names = self.function.args, self.parameters
        found = dict(zip(names[len(names) - len(arguments.defaults) :], arguments.defaults, strict=True))
        keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        return found | {each.arg: value for each, value in keywords if value is not None}

    def bound(self, call: ast.Call) -> dict[str, ast.expr] | None:
        """What a call passes, by the parameter; None where that is not plain."""
        arguments = self.function.args
        names = self.parameters
        known = {*names, *(each.arg for each in arguments.kwonlyargs)}
        if arguments.vararg is not None or arguments.kwarg is not None or len(call.args) > len(names):
            return None
        if any(isinstance(each, ast.Starred) for each in call.args):
            return None
        found = dict(zip(names, call.args, strict=False))
        for each in call.keywords:
            if each.arg is None or each.arg not in known or each.arg in found:
                return None
            found[each.arg] = each.value
        return found if known <= found.keys() | self.defaults.keys() else None


def find_called(tree: ast.Module, filename: str, call: ast.Call) -> Called | None:
    """The function that a call of a plain or an imported name calls; None where that is not certain."""
    parts = _dotted(call.func)
    if not parts:
        return None
    own = [node for node in ast.walk(tree) if isinstance(node, DEFINITIONS) and node.name == parts[0]]
    imported = [target for name, target in _bindings(tree) if name == parts[0]]
    if len(own) + len(imported) != 1 or parts[0] in _assigned(tree):
        return None
    if own:
        return _plain(tree, filename, ".".join(parts))
    project = project_of(filename)
    found = None if project is None else project.resolve(".".join([imported[0], *parts[1:]]), filename)
    if project is None or found is None:
        return None
    module, name = found
    try:
        followed = ast.parse(project.source(module.filename))
    except (SyntaxError, ValueError, RecursionError):
        return None
    return _plain(followed, module.filename, name)


def _plain(tree: ast.Module, filename: str, name: str) -> Called | None:
    """The only function of that name at the top of a module, if it is what a call of it runs."""
    named = [node for node in ast.walk(tree) if isinstance(node, DEFINITIONS) and node.name == name]
    function = named[0] if len(named) == 1 else None
    if not isinstance(function, ast.FunctionDef) or function not in tree.body or function.decorator_list:
        return None
    if name in _assigned(tree) or any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in ast.walk(function)):
        return None
    return Called(tree, filename, function)


def _assigned(tree: ast.Module) -> set[str]:
    """Names that are bound otherwise than by a definition or an import: which of these a call means is not plain."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    return names | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


def _bindings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(name, dotted target) of every import; one that is relative begins with its dots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (top, top)
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            dot = "" if origin.endswith(".") else "."
            yield from ((alias.asname or alias.name, f"{origin}{dot}{alias.name}") for alias in node.names)


def _dotted(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Name):
        return [node.id]
    inner = _dotted(node.value) if isinstance(node, ast.Attribute) else []
    return [*inner, node.attr] if inner and isinstance(node, ast.Attribute) else []


__all__ = ["Called", "find_called"]
