"""Calls: who is called, and what of it is followed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from accumlint.apis.contracts import made_class
from accumlint.apis.language import Role, Row
from accumlint.reading import ir
from accumlint.semantics.builtins import BUILTINS
from accumlint.semantics.containers import call_container
from accumlint.semantics.frames import Frame
from accumlint.semantics.functions import OPTIMIZER, Arguments, losses_in
from accumlint.semantics.hidden import HiddenLosses
from accumlint.semantics.knowledge import Restart
from accumlint.semantics.numbers import Num
from accumlint.semantics.roles import guess_class, is_named_optimizer
from accumlint.semantics.similarity import product_facts
from accumlint.semantics.values import (
    Canonical,
    ClassValue,
    Context,
    Fact,
    Form,
    FunctionValue,
    Hidden,
    Items,
    LibraryCall,
    Mapping,
    Method,
    Object,
    Opaque,
    Stream,
    Super,
    Value,
    carries_gradient,
    derived,
    facts_of_all,
    lineage_of,
    modules_of,
    path_of,
)

_MASK_NAME = re.compile(r"mask|(pad|padding|loss|label|attention|attn|response|completion|action|token|valid)_masks?")
_REDUCES = re.compile(r"reduce|gather|sync", re.I)
_LOSS_WORDS = ("loss", "cross_entropy", "criterion", "nll", "kl_div")


class Calls(HiddenLosses):
    """Calls functions of the file, library rows, and the unknown."""

    def call_expression(self, node: ir.Call, frame: Frame) -> Value:
        function = node.function
        if isinstance(function, ir.Attribute):
            receiver = self.evaluate(function.value, frame)
            arguments = self.arguments(node, frame)
            return self.call_attribute(receiver, function.name, arguments, node.node, frame, function.value)
        if isinstance(function, ir.Name) and function.id == "super" and frame.find("super") is None:
            return self._super(frame)
        callee = self.evaluate(function, frame)
        return self.call(callee, self.arguments(node, frame), node.node, frame)

    def arguments(self, node: ir.Call, frame: Frame) -> Arguments:
        result = Arguments()
        for argument in node.arguments:
            value = self.evaluate(argument.value, frame)
            if not argument.star:
                if argument.keyword is None:
                    result.positional.append(value)
                    result.written.append(argument.value)
                else:
                    result.keywords[argument.keyword] = value
                    result.written_keywords[argument.keyword] = argument.value
            elif argument.star == "*":
                known = self.known_items(value, limit=32)
                result.positional += known if known is not None else []
                result.written += [None] * len(known or ())
                result.open_ended |= known is None
                if known is None:
                    result.keywords.setdefault("*", value)
            elif isinstance(value, Mapping):
                result.keywords |= {str(key): item for key, item in value.items.items()}
                result.open_ended |= value.rest is not None
                if value.rest is not None:
                    result.keywords.setdefault("**", value.rest)
            else:
                result.open_ended = True
                result.keywords.setdefault("**", value)
        return result

    def _super(self, frame: Frame) -> Value:
        scope: Frame | None = frame
        while scope is not None and scope.owner is None:
            scope = scope.parent
        if scope is None or scope.owner is None:
            return Opaque("super()")
        return Super(scope.receiver, scope.owner)

    # -------------------------------------------------------------------------------------- attribute calls

    def call_attribute(
        self,
        receiver: Value,
        name: str,
        arguments: Arguments,
        node: ir.NodeId,
        frame: Frame | None,
        written: ir.Expression | None = None,
    ) -> Value:
        """`receiver.name(...)`."""
        if isinstance(receiver, Object):
            member = self.own_member(receiver, name)
            if member is not None:
                return self.call(member, arguments, node, frame)
        elif isinstance(receiver, (Canonical, ClassValue)):
            return self.call(self.get_attribute(receiver, name, node), arguments, node, frame)
        elif isinstance(receiver, FunctionValue):
            return self.opaque(f"{receiver.name}.{name}()", *arguments.values, node=node)
        elif isinstance(receiver, Super):
            return self._call_super(receiver, name, arguments, node, frame)
        contained = call_container(self, receiver, name, arguments, node)
        if contained is not NotImplemented:
            return contained  # type: ignore[no-any-return]
        if isinstance(receiver, Opaque) and (receiver.path, name) in self.fields:
            return self.call(self.fields[(receiver.path, name)], arguments, node, frame)
        return self.call_method(receiver, name, arguments, node, frame, written)

    def own_member(self, receiver: Object, name: str) -> Value | None:
        """A function or stored value that an object of a class of the file has under a name."""
        stored = receiver.attributes.get(name)
        if stored is not None and not isinstance(stored, (bool, int, float, str)):
            return self.owned(stored, receiver)
        if receiver.instance is None:
            return None
        member = self.find_member(receiver.instance, name)
        if isinstance(member, FunctionValue):
            return self.bind_method(member, receiver)
        return member

    def owned(self, part: Value, owner: Object) -> Value:
        """An unknown part of a module of the file: what it computes, its owner computes."""
        if not isinstance(part, Opaque) or part.lineage or owner.role is not Role.MODEL or owner.instance is None:
            return part
        return part if owner.modules <= part.modules else replace(part, modules=part.modules | owner.modules)

    def bind_method(self, member: FunctionValue, receiver: Value) -> Value:
        if isinstance(member.function, ir.Function):
            decorators = {d.id for d in member.function.decorators if isinstance(d, ir.Name)}
            if "staticmethod" in decorators:
                return member
            if "classmethod" in decorators and isinstance(receiver, Object) and receiver.instance is not None:
                receiver = receiver.instance
        return replace(member, bound=receiver, is_bound=True)

    def find_member(self, owner: ClassValue, name: str) -> Value | None:
        """A member of a class or of its bases in the file."""
        if name in owner.members:
            return owner.members[name]
        for base in owner.bases:
            if isinstance(base, ClassValue):
                found = self.find_member(base, name)
                if found is not None:
                    return found
        return None

    def canonical_base(self, owner: ClassValue) -> str:
        """The library class that a class of the file derives from, or ""."""
        for base in owner.bases:
            if isinstance(base, Canonical):
                return self.program.registry.canonical(base.name)
            if isinstance(base, ClassValue):
                found = self.canonical_base(base)
                if found:
                    return found
        return ""

    def _call_super(self, value: Super, name: str, arguments: Arguments, node: ir.NodeId, frame: Frame | None) -> Value:
        for base in value.owner.bases:
            if isinstance(base, ClassValue):
                member = self.find_member(base, name)
                if isinstance(member, FunctionValue):
                    return self.call(replace(member, bound=value.receiver, is_bound=True), arguments, node, frame)
            elif isinstance(base, Canonical):
                row = self.program.registry.method(base.name, name)
                if row is not None and name != "__init__":
                    return self.perform(self.library_call(row, value.receiver, arguments, node, frame))
                return self.opaque(f"super().{name}()", *arguments.values, node=node)
        return self.opaque(f"super().{name}()", *arguments.values, node=node)

    def call_method(
        self,
        receiver: Value,
        name: str,
        arguments: Arguments,
        node: ir.NodeId,
        frame: Frame | None,
        written: ir.Expression | None = None,
    ) -> Value:
        """A method of something that the file does not define."""
        registry = self.program.registry
        target = self.as_object(receiver, name, arguments, written)
        row: Row | None = None
        if isinstance(target, Object) and target.canonical:
            row = registry.method(target.canonical, name)
            if row is None and target.instance is not None and target.role is Role.OPTIMIZER:
                self.trace.exempt = self.trace.exempt or "an optimizer of its own kind"
        if row is None and not (isinstance(target, Object) and target.role not in (None, Role.MODEL)):
            row = registry.by_method(name)
        if name == "backward" and not self._is_loss(target) and any(self._is_loss(v) for v in arguments.values):
            known = isinstance(target, Object) and target.canonical
            if not known or row is None:
                row = registry.find("accumlint.AnyReceiver.backward_of")
                arguments = self._unsure_losses(arguments)
        if row is not None:
            call = self.library_call(row, target, arguments, node, frame)
            if written is not None:
                call.written["self"] = written
            return self.perform(call)
        return self._unknown_method(target, name, arguments, node)

    def _unsure_losses(self, arguments: Arguments) -> Arguments:
        """Losses handed to a wrapper that may divide them: their reduction counts as not seen."""

        def unsure(value: Value) -> Value:
            if not isinstance(value, Form):
                return value
            terms = tuple(
                (replace(s, reduction="unknown" if s.reduction == "mean" else s.reduction), c) for s, c in value.terms
            )
            return replace(value, terms=terms)

        keywords = {name: unsure(value) for name, value in arguments.keywords.items()}
        return replace(arguments, positional=[unsure(value) for value in arguments.positional], keywords=keywords)

    def as_object(
        self, receiver: Value, name: str, arguments: Arguments, written: ir.Expression | None = None
    ) -> Value:
        """An unknown receiver as an object, where the method or its name says what it is."""
        if not isinstance(receiver, Opaque) or receiver.gradient or receiver.kind in ("parameter", "gradient"):
            return receiver
        if receiver.path in self.objects:
            return self.objects[receiver.path]
        own = written.name if isinstance(written, ir.Attribute) else written.id if isinstance(written, ir.Name) else ""
        canonical = guess_class(
            receiver.path,
            name,
            has_loss=name == "backward" and any(map(self._is_loss, arguments.values)),
            has_arguments=bool(arguments.positional or arguments.keywords),
            written=own,
        )
        if not canonical or (receiver.lineage and canonical != OPTIMIZER):
            return receiver
        if canonical == OPTIMIZER and self._steps_beside(receiver.path, own):
            return receiver
        made = Object(receiver.path, self.program.registry.role_of(canonical), canonical, modules=receiver.modules)
        self.objects[receiver.path] = made
        return made

    def _steps_beside(self, path: str, written: str) -> bool:
        """Whether something that steps stands beside an optimizer: a schedule, a moving average of the weights."""
        if is_named_optimizer(written or path.rpartition(".")[2]) or any(
            path.startswith(f"{name}[") for name in self.stores
        ):
            return False
        others = (name for name in self.stores if name != path)
        return any("@" in other or is_named_optimizer(other.rpartition(".")[2]) for other in others)

    def _unknown_method(self, receiver: Value, name: str, arguments: Arguments, node: ir.NodeId) -> Value:
        owner = path_of(receiver)
        path = f"{owner}.{name}({', '.join(map(path_of, arguments.values))})"
        if name in ("pop", "popleft") and isinstance(receiver, Opaque):
            self._learn_emptied(receiver, arguments)
        self._note_reduced(name, arguments)
        self.note_logged(owner, name, arguments.values, node)
        if isinstance(receiver, Object) and name in ("parameters", "named_parameters", "trainable_parameters"):
            return self.parameters_of(receiver, path, node)
        if isinstance(receiver, Opaque) and name in ("parameters", "named_parameters", "trainable_parameters"):
            return self.parameters_of(receiver, path, node)
        given = arguments.values
        sources: Sequence[Value] = [receiver, *given]
        lineage, modules, gradient = derived(sources)
        if isinstance(receiver, (Object, Opaque)) and not lineage_of(receiver) and self._may_compute(arguments):
            gradient = gradient or (bool(lineage) and not self._is_data_method(name))
        facts = facts_of_all(sources)
        if name in ("masked_fill", "masked_fill_", "where") and any(isinstance(v, int) for v in arguments.positional):
            facts |= {Fact("filled", node, path)}
        facts |= product_facts(name, sources, arguments.written, node)
        if not lineage and self.loops and not isinstance(receiver, Object):
            lineage = self.draw_lineage(path)
        result = Opaque(path, lineage, gradient and not self.no_grad, modules, facts, node)
        contract = self.contract_of_method(receiver, name, arguments)
        return result if contract is None else self.declared_result(result, contract, node)

    def _learn_emptied(self, receiver: Opaque, arguments: Arguments) -> None:
        """`while queue: ... queue.pop()`: what is unknown ends, when its elements have been taken one by one."""
        taken = all(type(value) is int for value in arguments.values)
        loops = any(loop.key.startswith("while@") for loop in self.loops)
        if taken and loops and not receiver.lineage and receiver.path not in self.knowledge.emptied:
            self.knowledge.emptied[receiver.path] = None
            self.knowledge.lengths[self.key_of(receiver)] = 2 * self.knowledge.window + 2
            raise Restart

    def _may_compute(self, arguments: Arguments) -> bool:
        return any(lineage_of(value) for value in arguments.values)

    def _is_data_method(self, name: str) -> bool:
        return name.startswith(("to_", "prepare", "collate", "encode_batch", "tokeniz", "add_noise"))

    def draw_lineage(self, path: str) -> frozenset:  # type: ignore[type-arg]
        """Data that a call without data brings: it is new each time."""
        return self.arrival(f"call {path}"[:60], rank=0)

    def parameters_of(self, module: Value, path: str, node: ir.NodeId) -> Opaque:
        names = self.module_names(module, unknown=False)  # what an unknown part computes is marked with its owner too
        return Opaque(path, modules=names, node=node, kind="parameters")

    def module_names(self, module: Value, depth: int = 3, *, unknown: bool = True) -> frozenset[str]:
        """What losses that a module computed are marked with: its own name, and those of the parts it is made of."""
        if isinstance(module, Object):
            own = module.modules or frozenset({module.path})
            if module.instance is None or not depth:
                return own
            parts = [part for value in module.attributes.values() for part in _modules_in(value, unknown=unknown)]
            return own.union(*(self.module_names(part, depth - 1, unknown=unknown) for part in parts))
        if isinstance(module, Opaque):
            return frozenset({module.path})
        return modules_of(module)

    # -------------------------------------------------------------------------------------------- calls

    def call(self, callee: Value, arguments: Arguments, node: ir.NodeId, frame: Frame | None) -> Value:
        """Call a value."""
        if isinstance(callee, (FunctionValue, Object)) and self.program.module.contracts:
            contract = self.contract_of(callee, arguments, own=True)
            if contract is not None:
                result = self.call_unknown(callee, arguments, node)
                return self.declared_result(result, contract, node)
        if isinstance(callee, Canonical):
            return self.call_canonical(callee.name, arguments, node, frame)
        if isinstance(callee, FunctionValue):
            return self.call_function(callee, arguments, node)
        if isinstance(callee, ClassValue):
            return self.instantiate(callee, arguments, node)
        if isinstance(callee, Method):
            return self.call_method(callee.receiver, callee.name, arguments, node, frame)
        if isinstance(callee, Object):
            return self.call_object(callee, arguments, node, frame)
        return self.call_unknown(callee, arguments, node)

    def call_canonical(self, name: str, arguments: Arguments, node: ir.NodeId, frame: Frame | None) -> Value:
        registry = self.program.registry
        if name.startswith("builtins."):
            handler = BUILTINS.get(name[9:])
            if handler is not None:
                return handler(self, arguments, node)
        if name.endswith("partial") and name.startswith("functools") and arguments.positional:
            return self._partial(arguments, node)
        row = registry.find(name)
        if row is not None:
            return self.perform(self.library_call(row, None, arguments, node, frame))
        made = self._declared_call(name, arguments, node)
        if made is not None:
            return made
        followed = self.follow(name, frame)
        if followed is not None and not isinstance(followed, Canonical):
            return self.call(followed, arguments, node, frame)
        canonical = registry.canonical(name)
        if registry.is_class(canonical):
            return Object(f"{canonical}@{node}", registry.role_of(canonical), canonical, node=node)
        return self._unknown_function(name, arguments, node)

    def _declared_call(self, name: str, arguments: Arguments, node: ir.NodeId) -> Value:
        """A call that a loss contract speaks of: of a function, or one that makes an instance of a class."""
        made = made_class(name)
        is_class = made != name or made.rpartition(".")[2][:1].isupper()
        contract = self.contract_of(Canonical(made), arguments, own=not is_class)
        if contract is None:
            return None
        if not is_class:
            return self.declared_result(self._unknown_function(name, arguments, node), contract, node)
        model = Object(f"{made.rpartition('.')[2]}@{node}", Role.MODEL, made, node=node)
        model.modules = frozenset({model.path})
        self.model_classes[model.path] = made
        return model

    def _partial(self, arguments: Arguments, node: ir.NodeId) -> Value:
        function = arguments.positional[0]
        if not isinstance(function, FunctionValue):
            return function
        given: list[tuple[str | None, Value]] = [(None, value) for value in arguments.positional[1:]]
        return replace(function, partial=(*function.partial, *given, *arguments.keywords.items()))

    def _unknown_function(self, name: str, arguments: Arguments, node: ir.NodeId) -> Value:
        """A library function that no table describes: its result derives from its arguments."""
        values, last = arguments.values, name.rpartition(".")[2]
        path = f"{last}({', '.join(map(path_of, values))})"
        self._note_wrapped(path, arguments)
        self._note_reduced(name, arguments)
        self.note_logged("", name, values, node)
        lineage, modules, gradient = derived(values)
        facts = facts_of_all(values) | product_facts(last, values, arguments.written, node)
        if name == "torch.where" and -100 in arguments.positional:
            facts |= {Fact("filled", node, path)}
        own = name.startswith(".") or not name.startswith(
            ("torch", "numpy", "math", "os", "random", "time", "builtins", "importlib")
        )
        gradient = gradient or (own and bool(lineage) and "loss" in name.lower())
        if own and not lineage and self.loops:
            lineage = self.draw_lineage(path)
        return Opaque(path, lineage, gradient and not self.no_grad, modules, facts, node)

    def _note_wrapped(self, path: str, arguments: Arguments) -> None:
        """`Progress(enumerate(loader), total=n)`: something unknown that goes round counted elements."""
        first = arguments.positional[0] if arguments.positional else None
        if isinstance(first, Stream) and first.counted:
            self.wrapped[path] = first

    def _note_reduced(self, name: str, arguments: Arguments) -> None:
        """A count that is handed to a helper of another file, which may add it up over the ranks in place."""
        counts = any(isinstance(v, Num) and v.depends_on_counts for v in arguments.values)
        if counts and _REDUCES.search(name):
            self.trace.reduced = True

    def call_object(self, callee: Object, arguments: Arguments, node: ir.NodeId, frame: Frame | None) -> Value:
        """Calling an instance: `__call__`, `forward`, a loss function, a stepper, a model."""
        if callee.instance is not None:
            member = self.find_member(callee.instance, "__call__")
            if isinstance(member, FunctionValue):
                return self.call_function(replace(member, bound=callee, is_bound=True), arguments, node)
            forward = self.find_member(callee.instance, "forward")
            if isinstance(forward, FunctionValue) and self._computes_loss(forward, arguments):
                before = set(self.sites)
                value = self.call_function(replace(forward, bound=callee, is_bound=True), arguments, node)
                return self._by_module(value, callee) if before is not None else value
        if callee.canonical:
            row = self.program.registry.method(callee.canonical, "__call__")
            if row is not None:
                return self.perform(self.library_call(row, callee, arguments, node, frame))
        return self.call_unknown(callee, arguments, node)

    def _by_module(self, value: Value, module: Object) -> Value:
        names = self.module_names(module)
        if isinstance(value, Form):
            terms = tuple((replace(site, modules=site.modules | names), c) for site, c in value.terms)
            return replace(value, terms=terms)
        if isinstance(value, Opaque):
            return replace(value, modules=value.modules | names)
        if isinstance(value, Items):
            return Items(value.kind, [self._by_module(item, module) for item in value.items])
        return value

    def _computes_loss(self, forward: FunctionValue, arguments: Arguments) -> bool:
        """Whether a module's forward is followed: it computes a loss, and is given something to compare with."""
        if not isinstance(forward.function, ir.Function):
            return False
        words = self.program.relevance.block(forward.function.body).called
        return any(part in word.lower() for word in words for part in _LOSS_WORDS) and len(arguments.values) > 1

    def call_unknown(self, callee: Value, arguments: Arguments, node: ir.NodeId) -> Value:
        """Calling something unknown: a model, a loss function, a helper of another file."""
        names = ", ".join(
            [path_of(v) for v in arguments.positional] + [f"{k}={path_of(v)}" for k, v in arguments.keywords.items()]
        )
        path = f"{path_of(callee)}({names})"
        result = self.opaque(path, *arguments.values, node=node)
        modules = modules_of(callee) | self.module_names(callee) | result.modules
        facts = facts_of_all(arguments.values)
        labels = [path_of(value) for name, value in arguments.keywords.items() if "label" in name]
        if labels:
            facts |= {Fact("labels argument", node)}
        if self.filled and (any(map(self.is_filled, labels)) or self._has_filled_labels(arguments)):
            facts |= {Fact("filled", node, path)}
        if any(word in path_of(callee).rpartition(".")[2].lower() for word in _LOSS_WORDS):
            facts |= {Fact("mask argument", node, n) for n in arguments.keywords if _MASK_NAME.fullmatch(n)}
        lineage = result.lineage | lineage_of(callee)
        if not lineage and self.loops and isinstance(callee, Opaque):
            lineage = self.draw_lineage(path)
        gradient = not self.no_grad and (bool(lineage) or carries_gradient(callee))
        self.called |= self.module_names(callee)
        if isinstance(callee, Object) and callee.role is Role.WRAPPED_MODEL and not self.no_grad:
            self.forward_sync = self.sync
            self.trace.averaged = self.trace.averaged or callee.owner is None
        result = Opaque(path, lineage, gradient, modules, facts, node)
        self._note_wrapped(path, arguments)
        contract = self.contract_of(callee, arguments)
        return result if contract is None else replace(result, hidden=Hidden(contract, node))

    def is_filled(self, path: str) -> bool:
        """Whether some elements of a tensor were overwritten."""
        return any(path.startswith(filled) for filled in self.filled)

    def _has_filled_labels(self, arguments: Arguments) -> bool:
        """`model(**batch)` after `batch["labels"][pad] = -100`."""
        begin = f"{path_of(arguments.keywords['**'])}['label" if "**" in arguments.keywords else ""
        return bool(begin) and any(filled.startswith(begin) for filled in self.filled)

    def library_call(
        self, row: Row, receiver: Value, arguments: Arguments, node: ir.NodeId, frame: Frame | None
    ) -> LibraryCall:
        signature = self.program.registry.signature(row)
        keywords = arguments.keywords
        if arguments.open_ended:
            keywords = {name: value for name, value in keywords.items() if name not in ("*", "**")}
        bound: dict[str, object] = signature.bind(arguments.positional, keywords)
        written: dict[str, ir.Expression] = {}
        if arguments.written:
            for parameter, expression in zip(signature.parameters, arguments.written, strict=False):
                if expression is not None:
                    written[parameter.name] = expression
        if arguments.written_keywords:
            written |= arguments.written_keywords
        return LibraryCall(row, receiver, bound, node, written, frame)

    def perform(self, call: LibraryCall) -> Value:
        """A library call: a context manager waits for its `with`, everything else acts now."""
        if call.row.undo or self.is_context(call.row):
            return Context(call)
        return self.apply(call)


def _modules_in(value: Value, *, unknown: bool) -> list[Value]:
    """The modules that an attribute may be, or hold in a list: things of the file, and `unknown` ones."""
    if isinstance(value, (Items, Mapping)):
        held = value.items if isinstance(value, Items) else value.items.values()
        return [
            part for each in held if isinstance(each, (Object, Opaque)) for part in _modules_in(each, unknown=unknown)
        ]
    if isinstance(value, Opaque):
        return [value] if unknown and not value.lineage and not value.kind else []
    return [value] if isinstance(value, Object) and (value.role is Role.MODEL or value.instance is not None) else []


__all__ = ["Arguments", "Calls", "losses_in"]
