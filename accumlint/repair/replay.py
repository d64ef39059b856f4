"""Rewrites an expression of a training script so that it runs on drawn data: whitelisted operations, no user call.

`Replay.text(expression)` is Python text over leaves. A leaf is whatever no whitelisted operation made: a part of the
batch, the result of a model, a parameter. Everything else raises `UnmodelledError` with its reason.
"""

from __future__ import annotations

import ast
import re
import sys
import zlib
from dataclasses import dataclass, field

from accumlint.repair.functions import find_called
from accumlint.repair.scope import Scope

METHODS = frozenset(
    {"view", "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "permute", "contiguous", "t", "sum",
     "mean", "numel", "size", "dim", "long", "int", "float", "double", "bool", "eq", "ne", "gt", "ge", "lt",
     "le", "clamp", "clamp_min", "any", "all", "masked_select", "masked_fill", "log_softmax", "softmax",
     "log", "exp", "argmax", "expand", "expand_as", "repeat", "narrow", "index_select", "gather",
     "logical_and", "logical_not", "ravel", "mul", "div", "nelement", "abs", "item", "detach", "clone",
     "type_as", "unflatten", "movedim", "swapaxes", "square", "pow", "sqrt", "sigmoid", "tanh", "relu", "log1p",
     "neg", "logsumexp", "add", "sub", "maximum", "minimum", "clip", "amax", "amin"}
)  # fmt: skip
DROPPED = frozenset({"cuda", "cpu", "pin_memory"})
FUNCTIONS = frozenset(
    {"torch.sum", "torch.mean", "torch.flatten", "torch.ones_like", "torch.zeros_like", "torch.full_like",
     "torch.where", "torch.full", "torch.ones", "torch.zeros", "torch.tensor", "torch.numel", "torch.clamp",
     "torch.count_nonzero", "torch.logical_and", "torch.stack", "torch.log_softmax", "torch.softmax",
     "torch.logical_not", "torch.ne", "torch.eq", "torch.transpose", "torch.reshape", "torch.masked_select",
     "torch.cat", "torch.squeeze", "torch.as_tensor", "torch.square", "torch.abs", "torch.pow", "torch.exp",
     "torch.log", "torch.sqrt", "torch.sigmoid", "torch.tanh", "torch.log1p", "torch.gather", "torch.maximum",
     "torch.minimum", "torch.logsumexp", "torch.relu", "torch.mul", "torch.div", "torch.sub", "torch.add",
     "torch.neg"}
    | {f"torch.nn.functional.{name}" for name in (
        "log_softmax", "softmax", "logsigmoid", "sigmoid", "softplus", "relu", "one_hot", "normalize")}
)  # fmt: skip
DRAWS = frozenset(
    {f"torch.{name}" for name in ("rand", "randn", "randint", "rand_like", "randn_like", "randint_like", "normal")}
)
DTYPES = frozenset(
    {"torch.long", "torch.int64", "torch.int", "torch.bool", "torch.float", "torch.float32", "torch.float64"}
)  # fmt: skip
LOSSES = frozenset(
    {"cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
     "binary_cross_entropy", "kl_div", "ctc_loss", "binary_cross_entropy_with_logits", "poisson_nll_loss",
     "soft_margin_loss", "triplet_margin_loss", "cosine_embedding_loss", "margin_ranking_loss", "gaussian_nll_loss",
     "hinge_embedding_loss", "multi_margin_loss", "multilabel_soft_margin_loss"}
)  # fmt: skip
MODULES = {
    "CrossEntropyLoss": "cross_entropy", "NLLLoss": "nll_loss", "MSELoss": "mse_loss", "L1Loss": "l1_loss",
    "SmoothL1Loss": "smooth_l1_loss", "HuberLoss": "huber_loss", "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits", "KLDivLoss": "kl_div", "CTCLoss": "ctc_loss",
    "PoissonNLLLoss": "poisson_nll_loss", "SoftMarginLoss": "soft_margin_loss",
    "TripletMarginLoss": "triplet_margin_loss", "CosineEmbeddingLoss": "cosine_embedding_loss",
    "MarginRankingLoss": "margin_ranking_loss", "GaussianNLLLoss": "gaussian_nll_loss",
    "HingeEmbeddingLoss": "hinge_embedding_loss", "MultiMarginLoss": "multi_margin_loss",
    "MultiLabelSoftMarginLoss": "multilabel_soft_margin_loss",
}  # fmt: skip
BUILTINS = frozenset({"int", "float", "max", "min", "len", "sum", "abs"})
POSITIONS = {
    "ctc_loss": ("log_probs", "targets", "input_lengths", "target_lengths"),
    "triplet_margin_loss": ("anchor", "positive", "negative"),
    "cosine_embedding_loss": ("input1", "input2", "target"),
    "margin_ranking_loss": ("input1", "input2", "target"),
    "gaussian_nll_loss": ("input", "target", "var"),
}
FUNCTIONAL = "torch.nn.functional."
MASK_NAME = re.compile(r"mask|weight|valid|keep", re.I)
NOT_REDUCED = re.compile(r"reduction='none'|reduction=v\d")
LARGEST_EPS = 1e-3
LIBRARIES = frozenset({"torch", "numpy", "einops", "scipy", "transformers", "timm", "torchvision", "torchaudio", "jax"})


class UnmodelledError(Exception):
    """No leaf check can be made of this; the reason is one line."""


@dataclass(slots=True)
class LossCall:
    """One call of a library loss as it is replayed: function name, and the leaves that each argument is made of."""

    name: str
    arguments: dict[str, ast.expr]
    roots: dict[str, list[str]]
    options: dict[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class Replay:
    """Builds the texts of one check; leaves are shared by all expressions that are put through the same object."""

    scope: Scope
    home: str = ""  # the function in which the targets are counted
    leaves: dict[str, str] = field(default_factory=dict)  # what it is in the script -> its name here
    calls: list[LossCall] = field(default_factory=list)
    masks: set[str] = field(default_factory=set)
    factors: set[str] = field(default_factory=set)  # leaves that weigh a loss that is reduced already: numbers
    squeezed: set[str] = field(default_factory=set)
    indices: set[str] = field(default_factory=set)  # leaves that pick a class
    selectors: set[str] = field(default_factory=set)  # leaves that pick elements
    ranks: dict[str, int] = field(default_factory=dict)  # leaves whose last dimensions are cut: how many they must have
    partial: bool = False  # something is reduced over some of its dimensions
    loss: ast.expr | None = None  # what was asked for last: a helper that it calls is followed
    small: float = 0.0  # what is added to a divisor and was left out
    seen: set[str] = field(default_factory=set)  # the names that were read
    filename: str = ""  # of the script: helpers in other files of its project are followed
    programs: dict[str, str] = field(default_factory=dict)  # helpers that are run as they are written, by their names
    numbers: set[int] = field(default_factory=set)  # whole numbers in these
    ways: set[str] = field(default_factory=set)  # outcomes of their tests that drawn data have to bring about
    lists: set[str] = field(default_factory=set)  # leaves that these may be given as lists of their parts

    def text(self, node: ast.expr, line: int | None = None) -> str:
        self.loss = node
        return _Writer(self, self.scope.line if line is None else line, 0).write(node)

    def leaf(self, what: str) -> str:
        """The leaf of a part of the script: the same text in another function is another thing.

        A part of a parameter is a part of what the function that counts passes for it.
        """
        place, what = self.scope.origin(what, self.home)
        return self.leaves.setdefault(f"{place}: {what}", f"v{len(self.leaves)}")


@dataclass(slots=True)
class _Writer:
    replay: Replay
    line: int
    depth: int

    def write(self, node: ast.expr) -> str:
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise UnmodelledError(f"`{ast.unparse(node)[:60]}` is not replayed")
        return str(method(node))

    def _constant(self, node: ast.Constant) -> str:
        return repr(node.value)

    def _unaryop(self, node: ast.UnaryOp) -> str:
        operator = {ast.USub: "-", ast.Invert: "~", ast.Not: "not ", ast.UAdd: "+"}[type(node.op)]
        return f"({operator}{self.write(node.operand)})"

    def _binop(self, node: ast.BinOp) -> str:
        copy = ast.BinOp(ast.Name("L", ast.Load()), node.op, ast.Name("R", ast.Load()))
        left, right = self.write(node.left), self.write(self._divisor(node))
        if isinstance(node.op, ast.Mult):
            self._note_masks(left, right)
        operator = ast.unparse(copy)[2:-2]
        return f"({left} {operator} {right})"

    def _divisor(self, node: ast.BinOp) -> ast.expr:
        """The right side; of a divisor `n + 1e-8` only `n`."""
        right = node.right
        small = right.right if isinstance(right, ast.BinOp) and isinstance(right.op, ast.Add) else None
        value = small.value if isinstance(small, ast.Constant) else None
        if not isinstance(node.op, ast.Div) or not isinstance(value, float) or not 0 < value < LARGEST_EPS:
            return right
        assert isinstance(right, ast.BinOp)
        self.replay.small = max(self.replay.small, value)
        return right.left

    def _note_masks(self, left: str, right: str) -> None:
        for mine, other in ((left, right), (right, left)):
            if ("functional" in other or "nn." in other) and "functional" not in mine:
                found = {name for name in self.replay.leaves.values() if mentions(mine, name)}
                if NOT_REDUCED.search(other):
                    self.replay.masks |= found
                elif mine in found:
                    self.replay.factors.add(mine)

    def _compare(self, node: ast.Compare) -> str:
        if len(node.ops) != 1:
            raise UnmodelledError("a chained comparison is not replayed")
        copy = ast.Compare(ast.Name("L", ast.Load()), node.ops, [ast.Name("R", ast.Load())])
        return f"({self.write(node.left)} {ast.unparse(copy)[2:-2]} {self.write(node.comparators[0])})"

    def _tuple(self, node: ast.Tuple) -> str:
        return "(" + "".join(f"{self.write(part)}, " for part in node.elts) + ")"

    def _list(self, node: ast.List) -> str:
        return "[" + ", ".join(self.write(part) for part in node.elts) + "]"

    def _slice(self, node: ast.Slice) -> str:
        parts = [self.write(part) if part is not None else "" for part in (node.lower, node.upper)]
        step = f":{self.write(node.step)}" if node.step is not None else ""
        return f"{parts[0]}:{parts[1]}{step}"

    def _name(self, node: ast.Name) -> str:
        canonical = self.replay.scope.canonical(node)
        if canonical in DTYPES:
            return canonical
        if canonical:
            raise UnmodelledError(f"`{node.id}` is imported and not known")
        self.replay.seen.add(node.id)
        value, line = self.replay.scope.given(node.id, self.line)
        unpacked = self.replay.scope.unpacked(node.id, line) if value is None and line else None
        if unpacked is not None and (part := self._part(*unpacked)) is not None:
            return part
        if value is None:
            passed = None if line else self.replay.scope.argument(node.id, self.replay.home)
            return self._passed(*passed) if passed is not None else self.replay.leaf(node.id)
        if self.depth > 12:
            raise UnmodelledError(f"`{node.id}` is computed in too many steps")
        return _Writer(self.replay, line, self.depth + 1).write(value)

    def _passed(self, value: ast.expr, caller: Scope) -> str:
        """A parameter of a helper is what its caller passes."""
        inside, self.replay.scope = self.replay.scope, caller
        try:
            return _Writer(self.replay, caller.line, self.depth + 1).write(value)
        finally:
            self.replay.scope = inside

    def _attribute(self, node: ast.Attribute) -> str:
        canonical = self.replay.scope.canonical(node)
        if canonical in DTYPES:
            return canonical
        if canonical:
            raise UnmodelledError(f"`{canonical}` is not replayed")
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            given = self.replay.scope.attribute(node.attr)
            if isinstance(given, (ast.Constant, ast.UnaryOp)):
                return self.write(given)
            return self.replay.leaf(f"self.{node.attr}")
        if node.attr == "ignore_index" and (made := self._constructor(node.value)) is not None:
            return self.write(made[1]["ignore_index"]) if "ignore_index" in made[1] else "-100"
        if node.attr == "weight" and (made := self._constructor(node.value)) is not None and "weight" in made[1]:
            return self.write(made[1]["weight"])
        if node.attr in ("shape", "ndim", "T", "mT", "dtype", "device"):
            return f"{self.write(node.value)}.{node.attr}"
        return self.replay.leaf(ast.unparse(node))

    def _subscript(self, node: ast.Subscript) -> str:
        index = node.slice
        if isinstance(index, ast.Constant) and isinstance(index.value, str):
            items, line = self._items(node.value)
            if index.value in items:
                return _Writer(self.replay, line, self.depth + 1).write(items[index.value])
        if isinstance(index, ast.Constant):
            made = self.replay.scope.value_of(node.value.id, self.line) if isinstance(node.value, ast.Name) else None
            call = node.value if made is None else made
            if isinstance(call, ast.Call) and (part := self._part(call, index.value)) is not None:
                return part
        if isinstance(index, ast.Constant) and isinstance(index.value, str):
            return self.replay.leaf(ast.unparse(node))
        if isinstance(index, ast.Constant) and isinstance(node.value, (ast.Name, ast.Call)):
            base = node.value
            if isinstance(base, ast.Call) or self._is_batch(base):
                return self.replay.leaf(ast.unparse(node))
        if _has_open_bounds(index):
            return self.replay.leaf(ast.unparse(node))
        if isinstance(index, (ast.Slice, ast.Tuple)):
            parts = index.elts if isinstance(index, ast.Tuple) else [index]
            written = ", ".join(self.write(part) for part in parts)
            whole = self.write(node.value)
            if _is_dots(parts[0]) and any(isinstance(p, ast.Slice) and (p.lower or p.upper) for p in parts[1:]):
                self.replay.ranks[whole] = max(self.replay.ranks.get(whole, 0), len(parts))
            return f"{whole}[{written}]"
        picks = self.write(index)
        self.replay.selectors |= {name for name in self.replay.leaves.values() if mentions(picks, name)}
        return f"{self.write(node.value)}[{picks}]"

    def _items(self, node: ast.expr) -> tuple[dict[str, ast.expr], int]:
        """The entries of a dict that the script writes down, and the line that gave them."""
        value, line = self.replay.scope.given(node.id, self.line) if isinstance(node, ast.Name) else (node, self.line)
        if not isinstance(value, ast.Dict) or self.depth > 12:
            return {}, 0
        keys = [key.value if isinstance(key, ast.Constant) else None for key in value.keys]
        if not all(isinstance(key, str) for key in keys):
            return {}, 0
        return {str(key): each for key, each in zip(keys, value.values, strict=True)}, line

    def _part(self, call: ast.Call, key: object) -> str | None:
        """An entry of the dict, or an element of the tuple, that a helper of the file returns, if it is a loss."""
        helper = self.replay.scope.returned(call)
        if helper is None or self.depth > 12:
            return None
        value, inside = helper
        if isinstance(value, ast.Name):
            value = inside.value_of(value.id, inside.line) or value
        if isinstance(value, ast.Dict):
            found = [v for k, v in zip(value.keys, value.values, strict=True) if _is_key(k, key)]
        elif isinstance(value, ast.Tuple) and isinstance(key, int) and 0 <= key < len(value.elts):
            found = [value.elts[key]]
        else:
            return None
        return self._inline(found[0], inside, is_loss=False) if len(found) == 1 else None

    def _is_batch(self, name: ast.Name) -> bool:
        """Whether a name is something that no known operation made: its parts are leaves of their own."""
        if self.replay.scope.value_of(name.id, self.line) is None:
            return True
        kept = dict(self.replay.leaves), list(self.replay.calls), set(self.replay.masks), set(self.replay.squeezed)
        try:
            opaque = self.write(name) in self.replay.leaves.values()
        except UnmodelledError:
            opaque = True
        self.replay.leaves, self.replay.calls, self.replay.masks, self.replay.squeezed = kept
        return opaque

    # --------------------------------------------------------------------------------------------- calls

    def _call(self, node: ast.Call) -> str:
        canonical = self.replay.scope.canonical(node.func)
        name = canonical.removeprefix(FUNCTIONAL)
        if canonical.startswith(FUNCTIONAL) and name in LOSSES:
            return self._loss(name, node, {})
        made = self._constructor(node.func)
        if made is not None:
            return self._loss(MODULES[made[0]], node, made[1])
        if canonical in FUNCTIONS:
            written = f"{canonical}({self._arguments(node)})"
            if canonical in ("torch.gather", f"{FUNCTIONAL}one_hot"):
                self._note_index(node.args[-1])
            return written
        if canonical in DRAWS:
            return self._drawn(node)
        if canonical and not _is_own(canonical):
            raise UnmodelledError(f"`{canonical}` is not replayed")
        if isinstance(node.func, ast.Name) and node.func.id == "sum" and (terms := self._summed(node)):
            return terms
        if isinstance(node.func, ast.Name) and node.func.id in BUILTINS:
            return f"{node.func.id}({self._arguments(node)})"
        if (helper := self.replay.scope.returned(node)) is not None and (
            inlined := self._inline(*helper, node is self.replay.loss)
        ) is not None:
            return inlined
        if isinstance(node.func, ast.Attribute):
            return self._program(node) or self._method(node, node.func)
        return self._program(node) or self.replay.leaf(ast.unparse(node))

    def _program(self, node: ast.Call) -> str:
        """A call of a helper that is run as it is written, if it computes a loss; "" for any other call."""
        from accumlint.repair.programs import read_program

        called = find_called(self.replay.scope.tree, self.replay.filename, node)
        passed = called.bound(node) if called is not None else None
        if called is None or passed is None:
            return ""
        try:
            program = read_program(called, passed, f"helper_{len(self.replay.programs)}")
        except UnmodelledError:
            if node is self.replay.loss:
                raise
            return ""
        if not program.calls and node is not self.replay.loss:
            return ""
        texts = {parameter: self.write(value) for parameter, value in passed.items()}
        given = {p: ast.unparse(v) for p, v in called.defaults.items()} | texts
        known = sorted(self.replay.leaves.values(), key=len, reverse=True)
        used: set[str] = set()
        for call in program.calls:
            roots = {
                p: list(dict.fromkeys(leaf for r in found for leaf in known if mentions(given[r], leaf)))
                for p, found in call.roots.items()
            }
            plain = {p: given[found[0]] for p, found in call.roots.items() if len(found) == 1 and not roots[p]}
            options = call.options | {p: ast.literal_eval(t) for p, t in plain.items() if _is_literal(t)}
            self.replay.calls.append(LossCall(call.name, call.arguments, roots, options))
            used |= {leaf for found in roots.values() for leaf in found}
        for parameter, text in texts.items() if program.calls else ():
            for leaf in known:
                if (
                    mentions(text, leaf)
                    and leaf not in used
                    and not MASK_NAME.search(f"{parameter} {ast.unparse(passed[parameter])}")
                ):
                    raise UnmodelledError(f"what `{ast.unparse(passed[parameter])[:60]}` is for the loss is not known")
        self.replay.lists |= {texts[p] for p in program.lists & texts.keys() if texts[p] in known}
        self.replay.programs[program.name] = program.text
        self.replay.numbers |= program.numbers
        self.replay.ways |= program.ways
        self.replay.partial = self.replay.partial or program.partial
        self.replay.small = max(self.replay.small, program.small)
        return f"{program.name}({', '.join(f'{p}={t}' for p, t in texts.items())})"

    def _drawn(self, node: ast.Call) -> str:
        """Random data of the script: drawn here as any other data is. Two draws that are written alike are two."""
        text = ast.unparse(node)
        same = [n for n in ast.walk(self.replay.scope.body) if isinstance(n, ast.Call) and ast.unparse(n) == text]
        if len(same) != 1:
            raise UnmodelledError(f"`{text[:60]}` is drawn in several places")
        return self.replay.leaf(f"drawn_{zlib.crc32(text.encode()):x}")

    def _summed(self, node: ast.Call) -> str:
        """`sum(losses.values())` of a dict that the script writes down."""
        values = node.args[0] if len(node.args) == 1 and not node.keywords else None
        if (
            not isinstance(values, ast.Call)
            or not isinstance(values.func, ast.Attribute)
            or values.func.attr != "values"
        ):
            return ""
        items, line = self._items(values.func.value)
        writer = _Writer(self.replay, line, self.depth + 1)
        return "(" + " + ".join(writer.write(each) for each in items.values()) + ")" if items else ""

    def _inline(self, value: ast.expr, inside: Scope, is_loss: bool) -> str | None:
        """What a helper of the file returns, if it is a loss of known operations; else None."""
        replay = self.replay
        kept = (dict(replay.leaves), list(replay.calls), set(replay.masks), set(replay.squeezed), replay.scope)
        replay.scope = inside
        try:
            text = _Writer(replay, inside.line, self.depth + 1).write(_undivided(value)) if self.depth < 12 else ""
        except UnmodelledError:
            text = ""
        replay.scope = kept[4]
        if text and (len(replay.calls) > len(kept[1]) or is_loss):
            return text  # a helper that calls a loss, or the one that is the loss
        replay.leaves, replay.calls, replay.masks, replay.squeezed = kept[0], kept[1], kept[2], kept[3]
        return None

    def _method(self, node: ast.Call, function: ast.Attribute) -> str:
        if function.attr in DROPPED:
            return self.write(function.value)
        if function.attr == "to":
            kept = [a for a in node.args if self.replay.scope.canonical(a) in DTYPES]
            base = self.write(function.value)
            return f"{base}.to({self.replay.scope.canonical(kept[0])})" if kept else base
        if function.attr not in METHODS or _is_self(function.value):
            return self.replay.leaf(ast.unparse(node))
        base = self.write(function.value)
        if function.attr in ("sum", "mean", "logsumexp", "amax", "amin") and (node.args or node.keywords):
            self.replay.partial = True
        if function.attr == "gather" and node.args:
            self._note_index(node.args[-1])
        if function.attr == "masked_select" and node.args:
            picks = self.write(node.args[0])
            self.replay.selectors |= {name for name in self.replay.leaves.values() if mentions(picks, name)}
        if function.attr == "squeeze" and base in self.replay.leaves.values():
            self.replay.squeezed.add(base)
        return f"{base}.{function.attr}({self._arguments(node)})"

    def _note_index(self, node: ast.expr) -> None:
        text = self.write(node)
        self.replay.indices |= {name for name in self.replay.leaves.values() if mentions(text, name)}

    def _arguments(self, node: ast.Call) -> str:
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            raise UnmodelledError("starred arguments are not replayed")
        written = [self.write(a) for a in node.args]
        kept = [k for k in node.keywords if k.arg != "device"]
        return ", ".join(written + [f"{k.arg}={self.write(k.value)}" for k in kept])

    def _constructor(self, function: ast.expr) -> tuple[str, dict[str, ast.expr]] | None:
        """`criterion(...)` where criterion is a loss module that the file makes: its name and keyword options."""
        value: ast.expr | None = function
        scope = self.replay.scope
        line = self.line
        for _ in range(4):
            if isinstance(value, ast.Name):
                given = scope.value_of(value.id, line)
                passed = scope.passed(value.id) if given is None else None
                value, scope = passed if passed is not None else (given, scope)
                line = line if passed is None else scope.line
            elif isinstance(value, ast.Attribute) and _is_self(value.value):
                value = scope.attribute(value.attr)
            else:
                break
        while (
            isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in ("to", "cuda")
        ):
            value = value.func.value
        if not isinstance(value, ast.Call):
            return None
        canonical = scope.canonical(value.func)
        name = canonical.rpartition(".")[2]
        if not canonical.startswith("torch.nn.") or name not in MODULES:
            return None
        if len(value.args) > 1 or any(k.arg is None for k in value.keywords):
            raise UnmodelledError(f"positional options of {name}")
        options = {k.arg: k.value for k in value.keywords if k.arg is not None}
        if value.args:
            options["weight"] = value.args[0]
        return name, options

    def _loss(self, name: str, node: ast.Call, more: dict[str, ast.expr]) -> str:
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            raise UnmodelledError("starred arguments of a loss")
        positions = POSITIONS.get(name, ("input", "target", "weight"))
        if len(node.args) > len(positions):
            raise UnmodelledError(f"positional options of {name}")
        given = dict(zip(positions, node.args, strict=False))
        given |= {k.arg: k.value for k in node.keywords if k.arg is not None} | more
        texts = {parameter: self.write(value) for parameter, value in given.items()}
        known = sorted(self.replay.leaves.values(), key=len, reverse=True)
        roots = {p: [leaf for leaf in known if mentions(text, leaf)] for p, text in texts.items()}
        options = {p: ast.literal_eval(t) for p, t in texts.items() if not roots[p] and _is_literal(t)}
        self.replay.calls.append(LossCall(name, given, roots, options))
        return f"torch.nn.functional.{name}({', '.join(f'{p}={t}' for p, t in texts.items())})"


def _is_dots(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def _has_open_bounds(index: ast.expr) -> bool:
    """`x[:, 1 : block + 1]`: how long the slice is depends on the configuration, so it is data by itself."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    bounds = [b for part in parts if isinstance(part, ast.Slice) for b in (part.lower, part.upper) if b is not None]
    return any(isinstance(node, ast.Name) for bound in bounds for node in ast.walk(bound))


def _undivided(value: ast.expr) -> ast.expr:
    """What a helper returns without its division by the number of steps, which no repaired helper has."""
    while isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
        plain = isinstance(value.right, (ast.Constant, ast.Name)) or (
            isinstance(value.right, ast.Attribute) and isinstance(value.right.value, ast.Name)
        )
        if not plain:
            break
        value = value.left
    return value


def _is_key(node: ast.expr | None, key: object) -> bool:
    return isinstance(node, ast.Constant) and node.value == key


def _is_own(canonical: str) -> bool:
    """Whether what is imported is the project's own: its calls are what calls of the file's own names are."""
    root = canonical.partition(".")[0]
    return root not in LIBRARIES and root not in sys.stdlib_module_names


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def mentions(text: str, leaf: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == leaf for n in ast.walk(ast.parse(text, mode="eval")))


def _is_literal(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return False
    return True
