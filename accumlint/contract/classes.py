"""The classes of a file as a rule about classes sees them: their bases, in the file or imported, and their methods.

With a project, bases are looked up in its other files, too: nodes of those are beyond `FOREIGN`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from accumlint.reading import ir
from accumlint.reading.program import Module
from accumlint.reading.project import Project
from accumlint.reading.walk import all_statements, dotted, walk

DEPTH = 4
"""Files that a chain of bases may lead through."""


@dataclass(frozen=True, slots=True)
class ClassView:
    """A class with its bases: `lineage` are those that could be read, itself first, `outside` all others by name."""

    definition: ir.Class
    lineage: tuple[ir.Class, ...]
    outside: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.definition.name

    def own_method(self, name: str) -> ir.Function | None:
        """The last definition of a method in the class itself."""
        return _method(self.definition, name)

    def method(self, name: str) -> ir.Function | None:
        """The definition that `self.name` finds in the file."""
        return next((found for each in self.lineage if (found := _method(each, name)) is not None), None)

    def sets(self, name: str) -> list[ir.Expression]:
        """What the class or a base of the file assigns to an attribute: in a class body, or as `self.name = ...`."""
        found: list[ir.Expression] = []
        for each in self.lineage:
            own = {id(statement) for statement in each.body}
            for node in all_statements(each.body):
                if isinstance(node, ir.Assign) and any(
                    _is_attribute(target, name, in_body=id(node) in own) for target in node.targets
                ):
                    found.append(node.value)
        return found

    def mentions(self, name: str) -> bool:
        """Whether a name, method or attribute of this name occurs anywhere in the class or its bases of the file."""
        return any(_named(node) == name for each in self.lineage for node in walk(each.body))


@dataclass(frozen=True, slots=True)
class FileNames:
    """What names stand for: imports (dotted targets) and classes from anywhere, functions of the top level."""

    imports: dict[str, str] = field(default_factory=dict)
    functions: dict[str, ir.Function] = field(default_factory=dict)
    classes: dict[str, ir.Class] = field(default_factory=dict)
    filename: str = ""
    project: Project | None = None

    @classmethod
    def of(cls, module: Module, project: Project | None = None) -> FileNames:
        names = cls(filename=module.filename, project=project)
        for node in all_statements(module.body):
            if isinstance(node, ir.Import):
                names.imports.update(node.bindings)
            elif isinstance(node, ir.Class):
                names.classes[node.name] = node
        for statement in module.body:
            if isinstance(statement, ir.Function):
                names.functions[statement.name] = statement
        return names

    def canonical(self, expression: ir.Expression) -> str | None:
        """The dotted name of a thing: `torch.nn.MSELoss` for `nn.MSELoss`; an unimported name stays as it is."""
        text = dotted(expression)
        if text is None:
            return None
        root, dot, rest = text.partition(".")
        return self.imports.get(root, root) + dot + rest

    def view(self, definition: ir.Class, depth: int = DEPTH) -> ClassView:
        """A class with its bases, depth first; a class that inherits from itself by a fault of the file is cut."""
        lineage: list[ir.Class] = []
        outside: list[str] = []
        pending = [definition]
        while pending:
            each = pending.pop(0)
            if any(each is seen for seen in lineage):
                continue
            lineage.append(each)
            inner: list[ir.Class] = []
            for base in each.bases:
                plain = base.value if isinstance(base, ir.Subscript) else base
                known = self.classes.get(plain.id) if isinstance(plain, ir.Name) else None
                if known is not None and known is not each:
                    inner.append(known)
                elif (name := self.canonical(plain)) is not None:
                    found = self._elsewhere(name, depth)
                    lineage += found.lineage if found is not None else ()
                    outside += found.outside if found is not None else (name,)
            pending = inner + pending
        return ClassView(definition, tuple(lineage), tuple(dict.fromkeys(outside)))

    def _elsewhere(self, name: str, depth: int) -> ClassView | None:
        """A class of another file of the project, with its bases; re-exports are followed."""
        if self.project is None or depth == 0:
            return None
        found = self.project.resolve(name, self.filename)
        if found is None or not found[1]:
            return None
        names = FileNames.of(found[0], self.project)
        if found[1] in names.classes:
            return names.view(names.classes[found[1]], depth - 1)
        target = names.imports.get(found[1])
        return None if target is None else names._elsewhere(target, depth - 1)


def configured_steps(module: Module) -> int | None:
    """The literal that the file gives to `gradient_accumulation_steps`, if it is one and the same everywhere."""
    found: set[object] = set()
    for node in module.nodes:
        if type(node) is ir.Call:
            given = [each.value for each in node.arguments if each.keyword == "gradient_accumulation_steps"]
            found.update(each.value if isinstance(each, ir.Constant) else None for each in given)
    steps = found.pop() if len(found) == 1 else None
    return steps if isinstance(steps, int) and steps > 1 else None


def _method(definition: ir.Class, name: str) -> ir.Function | None:
    found = [each for each in definition.body if isinstance(each, ir.Function) and each.name == name]
    return found[-1] if found else None


def _is_attribute(target: ir.Expression, name: str, *, in_body: bool) -> bool:
    if isinstance(target, ir.Attribute):
        return target.name == name and isinstance(target.value, ir.Name) and target.value.id in ("self", "cls")
    return in_body and isinstance(target, ir.Name) and target.id == name


def _named(node: object) -> str | None:
    if isinstance(node, ir.Name):
        return node.id
    if isinstance(node, (ir.Attribute, ir.Function)):
        return node.name
    return None
