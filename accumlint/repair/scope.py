"""What the names in an expression stand for, read off the syntax of one file: no module is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class Scope:
    """The names that a line of a file sees: its function, the class around it, and the module."""

    tree: ast.Module
    line: int
    function: FunctionNode | None = None
    owner: ast.ClassDef | None = None
    imports: dict[str, str] = field(default_factory=dict)

    @classmethod
    def at(cls, tree: ast.Module, line: int) -> Scope:
        scope = cls(tree, line)
        scope.imports = dict(_imports(tree))
        for node in ast.walk(tree):
            if not isinstance(node, (ast.ClassDef, FunctionNode)) or not node.lineno <= line <= (node.end_lineno or 0):
                continue
            if isinstance(node, ast.ClassDef):
                scope.owner = node
            elif scope.function is None or node.lineno >= scope.function.lineno:
                scope.function = node
        return scope

    @property
    def body(self) -> ast.AST:
        return self.function if self.function is not None else self.tree

    def canonical(self, node: ast.expr) -> str:
        """The dotted library name of an expression, "" if it is none."""
        if isinstance(node, ast.Name):
            return self.imports.get(node.id, "")
        if isinstance(node, ast.Attribute):
            base = self.canonical(node.value)
            return f"{base}.{node.attr}" if base else ""
        return ""

    @property
    def place(self) -> str:
        """The function and class by name: the same in the original and in the repaired text."""
        names = (self.owner.name if self.owner else "", self.function.name if self.function else "")
        return ".".join(name for name in names if name)

    def value_of(self, name: str, line: int) -> ast.expr | None:
        """What a plain name was last given before `line` by `name = ...`; None for loop variables and parameters."""
        return self.given(name, line)[0]

    def given(self, name: str, line: int) -> tuple[ast.expr | None, int]:
        """The same with the line of the statement that gave it (0: it was not given in the function)."""
        found: tuple[ast.expr | None, int] = (None, 0)
        if any(name in _bound(c.target) for c in self._comprehensions(line)):
            return None, line
        for number, value in self._givings(name):
            if number < line:
                found = (value, number)
        if found[1] or self.function is None or name in _parameters(self.function):
            return found
        at_module = [n.value for n in self.tree.body if isinstance(n, ast.Assign) and _names(n.targets) == [name]]
        return (at_module[-1], 0) if len(at_module) == 1 else (None, 0)

    def unpacked(self, name: str, line: int) -> tuple[ast.Call, int] | None:
        """The call whose result a statement on `line` unpacks, and the place of `name` there."""
        for node in ast.walk(self.body):
            if not isinstance(node, ast.Assign) or node.lineno != line or not isinstance(node.value, ast.Call):
                continue
            target = node.targets[0]
            parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
            places = [place for place, part in enumerate(parts) if isinstance(part, ast.Name) and part.id == name]
            if len(places) == 1 and not any(isinstance(part, ast.Starred) for part in parts):
                return node.value, places[0]
        return None

    def argument(self, name: str, home: str) -> tuple[ast.expr, Scope] | None:
        """What a parameter of this function is given by the only call of it in the function called `home`."""
        function = self.function
        if function is None or name not in _parameters(function) or self.place == home:
            return None
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call) and _calls(node, function.name)]
        near = [call for call in calls if Scope.at(self.tree, call.lineno).place == home]
        if len(near) != 1 or any(isinstance(a, ast.Starred) for a in near[0].args):
            return None
        arguments = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        if isinstance(near[0].func, ast.Attribute):
            arguments = arguments[1:]
        given = dict(zip(arguments, near[0].args, strict=False)) | {k.arg: k.value for k in near[0].keywords if k.arg}
        return (given[name], Scope.at(self.tree, near[0].lineno)) if name in given else None

    def passed(self, name: str) -> tuple[ast.expr, Scope] | None:
        """What a parameter of this function is given by its only call in the file."""
        function = self.function
        if function is None:
            return None
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call) and _calls(node, function.name)]
        named = [node for node in ast.walk(self.tree) if _names_function(node, function.name)]
        if len(calls) != 1 or len(named) != 1:
            return None
        return self.argument(name, Scope.at(self.tree, calls[0].lineno).place)

    def origin(self, what: str, home: str) -> tuple[str, str]:
        """Where a part of the script comes from, and its text there: `batch["y"]` of a helper is its caller's."""
        node: ast.AST = ast.parse(what, mode="eval").body
        whole = node
        holder: ast.Attribute | ast.Subscript | None = None
        while isinstance(node, ast.Attribute) or (
            isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)
        ):
            holder, node = node, node.value
        if not isinstance(node, ast.Name) or self.given(node.id, self.line)[1]:
            return self.place, what
        found = self.argument(node.id, home)
        if found is None or holder is None or not _is_path(found[0]):
            return self.place, what
        holder.value = found[0]
        return found[1].origin(ast.unparse(whole), home)

    def returned(self, call: ast.Call) -> tuple[ast.expr, Scope] | None:
        """What the function of the file that is called returns, if it only assigns and returns once, at its end."""
        name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
        named = [n for n in ast.walk(self.tree) if isinstance(n, FunctionNode) and n.name == name]
        if len(named) != 1 or not _calls(call, name):
            return None
        *before, last = named[0].body
        plain = all(isinstance(each, (ast.Assign, ast.Expr)) for each in before)
        if not plain or not isinstance(last, ast.Return) or last.value is None:
            return None
        return last.value, Scope.at(self.tree, last.lineno)

    def _comprehensions(self, line: int) -> list[ast.comprehension]:
        """The clauses of the comprehensions on a line: their names are their own."""
        kinds = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
        around = [n for n in ast.walk(self.body) if isinstance(n, kinds) and n.lineno <= line <= (n.end_lineno or 0)]
        return [clause for each in around for clause in each.generators]

    def _givings(self, name: str) -> list[tuple[int, ast.expr | None]]:
        found: list[tuple[int, ast.expr | None]] = []
        for node in ast.walk(self.body):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    found += _given(target, node.value, name, node.lineno)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                found += _given(node.target, node.value, name, node.lineno)
            elif isinstance(node, (ast.For, ast.comprehension)) and name in _bound(node.target):
                found.append((node.target.lineno, None))
            elif (
                isinstance(node, ast.withitem) and node.optional_vars is not None and name in _bound(node.optional_vars)
            ):
                found.append((node.optional_vars.lineno, None))
            elif isinstance(node, ast.NamedExpr) and node.target.id == name:
                found.append((node.lineno, node.value))
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
                found.append((node.lineno, None))
        return sorted(found, key=lambda each: each[0])

    def attribute(self, name: str) -> ast.expr | None:
        """What `self.<name>` is given in the class, if it is given once."""
        if self.owner is None:
            return None
        found: list[ast.expr] = []
        for node in ast.walk(self.owner):
            if not isinstance(node, ast.Assign):
                continue
            for target in node.targets:
                if isinstance(target, ast.Attribute) and ast.unparse(target) == f"self.{name}":
                    found.append(node.value)
        return found[0] if len(found) == 1 else None


def _calls(call: ast.Call, name: str) -> bool:
    function = call.func
    if isinstance(function, ast.Name):
        return function.id == name
    return isinstance(function, ast.Attribute) and function.attr == name and ast.unparse(function.value) == "self"


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (
                    (alias.asname or alias.name.partition(".")[0]),
                    (alias.name if alias.asname else alias.name.partition(".")[0]),
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _names_function(node: ast.AST, name: str) -> bool:
    return (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.Attribute) and node.attr == name)


def _is_path(node: ast.AST) -> bool:
    """Whether an expression only goes into something: `batch`, `batch["y"]`, `self.data.y`."""
    while isinstance(node, ast.Attribute) or (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)):
        node = node.value
    return isinstance(node, ast.Name)


def _parameters(function: FunctionNode) -> set[str]:
    arguments = function.args
    return {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}


def _names(targets: list[ast.expr]) -> list[str]:
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _bound(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def _given(target: ast.expr, value: ast.expr, name: str, line: int) -> list[tuple[int, ast.expr | None]]:
    if isinstance(target, ast.Name):
        return [(line, value)] if target.id == name else []
    if isinstance(target, (ast.Tuple, ast.List)) and name in _bound(target):
        if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
            for part, given in zip(target.elts, value.elts, strict=True):
                if isinstance(part, ast.Name) and part.id == name:
                    return [(line, given)]
        places = [place for place, part in enumerate(target.elts) if isinstance(part, ast.Name) and part.id == name]
        if isinstance(value, ast.Name) and places and not any(isinstance(part, ast.Starred) for part in target.elts):
            return [(line, ast.Subscript(value, ast.Constant(places[0]), ast.Load()))]
        return [(line, None)]
    return []


def changes_between(scope: Scope, first: int, last: int) -> set[str]:
    """The names whose data is changed in place on a line between two lines: `y[pad] = -100`, `y.clamp_(0)`."""
    found: set[str] = set()
    for node in ast.walk(scope.body):
        if not isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr)) or not first < node.lineno < last:
            continue
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
        )
        for target in targets:
            if isinstance(target, (ast.Subscript, ast.Attribute)) or isinstance(node, ast.AugAssign):
                found |= _bound(target)
        if isinstance(node, ast.Expr):
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_"):
                    found |= _bound(call.func.value)
    return found
