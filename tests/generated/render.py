"""A composition as source text, in the varied style of real code, with the line of each construct.

The writer emits lines with an optional mark ("backward", "clip", "boundary", ...); the marks of the finished text are
the lines on which findings are expected. Roles (model, loader, K, ...) become parameters, fields of an `args` object,
attributes of a class or module constants, and `call` says how the program is to be called.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.generated.features import CONSTANT, MASKED, SUMS, Features

IGNORE = {"ce_ignore": (-100, -1), "ce_smooth": (-100,), "ce_filled": (-100,)}

NAMES = {
    "model": ("model", "net", "student"),
    "optimizer": ("optimizer", "opt", "optim"),
    "loader": ("loader", "train_loader", "dataloader"),
    "k": ("accum_steps", "accumulation_steps", "grad_accum", "k", "gradient_accumulation_steps", "n_accum"),
    "clip": ("max_norm", "clip", "grad_clip"),
    "scheduler": ("scheduler", "lr_scheduler", "sched"),
    "scaler": ("scaler", "grad_scaler"),
    "epochs": ("epochs", "num_epochs"),
    "updates": ("updates", "max_iters", "total_steps"),
    "stream": ("stream", "batches", "data_iter"),
    "i": ("i", "step", "idx", "batch_idx"),
    "epoch": ("epoch", "_"),
    "x": ("x", "inputs", "features"),
    "y": ("y", "targets", "labels"),
    "m": ("m", "mask", "loss_mask"),
    "out": ("out", "logits", "pred"),
    "loss": ("loss", "loss", "objective"),
    "count": ("n_items", "num_targets", "seen", "total_weight"),
    "pending": ("pending", "micro", "count"),
    "window": ("window", "chunk", "group"),
    "micro": ("micro_step", "m_step", "j"),
    "run": ("train", "fit", "run_epoch", "train_model", "main"),
    "cls": ("Trainer", "Engine", "Loop"),
}


@dataclass
class Writer:
    """Lines with indentation and marks."""

    lines: list[tuple[int, str, str]] = field(default_factory=list)
    depth: int = 0

    def put(self, text: str = "", mark: str = "") -> None:
        self.lines.append((self.depth if text else 0, text, mark))

    @contextmanager
    def block(self, head: str, mark: str = "") -> Iterator[None]:
        self.put(head, mark)
        self.depth += 1
        yield
        self.depth -= 1

    def splice(self, other: Writer) -> None:
        self.lines.extend((self.depth + depth if text else 0, text, mark) for depth, text, mark in other.lines)


@dataclass
class Rendered:
    source: str
    entry: str
    call: dict[str, Any]
    marks: dict[str, list[int]]
    ignore: int  # the label that the loss ignores
    keys: dict[str, str]  # of a dict batch


class Renderer:
    """Writes one composition. One method a construct; `role(name)` is how every outside value is named."""

    def __init__(self, features: Features, rng: random.Random) -> None:
        self.f = features
        self.rng = rng
        self.n = {key: rng.choice(pool) for key, pool in NAMES.items()}
        if self.n["micro"] == "m_step" and self.n["m"] == "m":
            self.n["m"] = "mask"
        self.params: dict[str, str] = {}  # parameter or attribute name -> role, in order of first use
        self.fields: dict[str, str] = {}  # field of args -> role
        self.consts: dict[str, str] = {}  # module constant -> role
        self.setup = Writer()
        self.header_consts: list[str] = []
        self.helpers: list[Writer] = []
        self.methods: list[Writer] = []
        self.imports: set[str] = {"import torch"}
        self.has_class = features["shape"] == "class"
        self.ignore = rng.choice(IGNORE.get(features["loss"], (-100,)))
        self.ignore_text = str(self.ignore)
        if features["loss"] in ("ce_ignore", "ce_filled") and rng.random() < 0.4:
            self.ignore_text = rng.choice(("IGNORE_INDEX", "IGNORE", "PAD"))
            self.header_consts.append(f"{self.ignore_text} = {self.ignore}")
        self.count_lines: list[str] = []
        self.dict_keys = {"x": "input_ids" if self.tokens else "x", "y": "labels" if self.tokens else "y", "m": "mask"}

    # -- names ---------------------------------------------------------------------------------------------------

    @property
    def tokens(self) -> bool:
        return self.f["loss"] in ("ce_ignore", "ce_filled", "ce_smooth", "masked_ce", "ce_stream")

    @property
    def masked(self) -> bool:
        return self.f["loss"] in MASKED

    def role(self, name: str) -> str:
        """The expression for an outside value, registered with the place that it comes from."""
        text = self.n.get(name, name)
        if name in ("k", "clip", "epochs") and self.f["k_from"] == "args":
            self.params.setdefault("args", "args")
            self.fields[text] = name
            return f"args.{text}"
        if name == "k" and self.f["k_from"] == "const":
            self.consts[self.n["k"].upper()] = "k"
            return self.n["k"].upper()
        if self.f["loop"] == "slices" and name == "k":
            return self.local("n_micro")
        if self.has_class and name not in ("epochs", "updates"):
            self.params.setdefault(text, name)
            return f"self.{text}"
        self.params.setdefault(text, name)
        return text

    def local(self, name: str) -> str:
        """An object made in the set-up code: an attribute in a class, a local name elsewhere."""
        return f"self.{name}" if self.has_class else name

    # -- the loss ------------------------------------------------------------------------------------------------

    def loss_text(self, role: Callable[[str], str], batch: dict[str, str]) -> tuple[list[str], str]:
        """Statements before the loss, and the loss as an expression: reduced as the composition says."""
        f, x, y, m = self.f, batch["x"], batch["y"], batch["m"]
        loss, total = f["loss"], f["division"] in SUMS
        forward, out = f"{role('model')}({x})", self.n["out"]
        lines: list[str] = []
        keywords: list[str] = []
        if loss in ("ce_ignore", "ce_smooth"):
            keywords.append(f"ignore_index={self.ignore_text}")
        if loss == "ce_smooth":
            keywords.append("label_smoothing=0.1")
        if loss == "ce_weighted":
            keywords.append(f"weight={role('class_weights')}")
        per_target = f["by_hand"] or loss in ("masked_ce", "masked_mse")
        if per_target:
            keywords.append('reduction="none"')
        elif loss == "kl":
            keywords.append('reduction="sum"' if total else 'reduction="batchmean"')
        elif total:
            keywords.append('reduction="sum"')
        if loss == "ce_filled":
            filled = "valid_" + y if self.rng.random() < 0.5 else y
            lines.append(f"{filled} = {y}.masked_fill({m} == 0, {self.ignore_text})")
            y = filled
        if self.rng.random() < 0.7 or self.tokens:
            lines.append(f"{out} = {forward}")
            forward = out
        if self.tokens:
            arguments = [
                self.rng.choice((f"{forward}.flatten(0, 1)", f"{forward}.view(-1, {forward}.size(-1))")),
                f"{y}.flatten()",
            ]
        elif loss in ("mse", "l1", "bce", "masked_mse"):
            arguments = [f"{forward}.squeeze(-1)", y]
        elif loss in ("nll", "kl"):
            arguments = [f"F.log_softmax({forward}, dim=-1)", y]
            self.imports.add("import torch.nn.functional as F")
        else:
            arguments = [forward, y]
        name = {
            "nll": "nll_loss",
            "mse": "mse_loss",
            "masked_mse": "mse_loss",
            "l1": "smooth_l1_loss",
            "kl": "kl_div",
            "bce": "binary_cross_entropy_with_logits",
        }.get(loss, "cross_entropy")
        module = {
            "nll_loss": "NLLLoss",
            "mse_loss": "MSELoss",
            "smooth_l1_loss": "SmoothL1Loss",
            "kl_div": "KLDivLoss",
            "binary_cross_entropy_with_logits": "BCEWithLogitsLoss",
        }.get(name, "CrossEntropyLoss")
        if loss == "arg":
            call = f"{role('criterion')}({', '.join(arguments)})"
        elif f["style"] == "nn":
            self.imports.add("from torch import nn")
            made = f"{self.local('criterion')} = nn.{module}({', '.join(keywords)})"
            if all(text != made for _, text, _ in self.setup.lines):
                self.setup.put(made)
            call = f"{role('@criterion')}({', '.join(arguments)})"
        else:
            self.imports.add("import torch.nn.functional as F")
            call = f"F.{name}({', '.join(arguments + keywords)})"
        if not per_target:
            return lines, call
        lines.append(f"per_target = {call}")
        if loss == "masked_ce":
            lines.append(f"per_target = per_target.view({y}.shape)")
        if self.masked:
            return lines, f"(per_target * {m}).sum()" + ("" if total else f" / {m}.sum()")
        if total:
            return lines, "per_target.sum()"
        return (
            lines,
            f"per_target.sum() / ({y} != {self.ignore_text}).sum()" if loss == "ce_ignore" else "per_target.mean()",
        )

    def count_text(self, batch: dict[str, str]) -> str:
        """The count of one microbatch: the loss's own normaliser."""
        loss, x, y, m = self.f["loss"], batch["x"], batch["y"], batch["m"]
        choose = self.rng.choice
        if loss in ("ce_ignore", "ce_smooth"):
            return choose(
                (
                    f"({y} != {self.ignore_text}).sum().item()",
                    f"int(({y} != {self.ignore_text}).sum())",
                    f"{y}.ne({self.ignore_text}).sum()",
                )
            )
        if self.masked:
            return choose((f"{m}.sum().item()", f"int({m}.sum())", f"{m}.sum()"))
        if loss == "ce_weighted":
            return f"{self.role('class_weights')}[{y}].sum()" + choose(("", ".item()"))
        if loss == "ce_stream":
            return f"{y}.numel()"
        return choose((f"{y}.size(0)", f"len({x})", f"{x}.shape[0]"))

    # -- one microbatch ------------------------------------------------------------------------------------------

    @property
    def batch(self) -> dict[str, str]:
        return {key: self.n[key] for key in ("x", "y", "m")}

    @property
    def unpacked(self) -> str:
        return ", ".join(self.n[key] for key in (("x", "y", "m") if self.masked else ("x", "y")))

    def item(self) -> str:
        """The target of a `for` over batches."""
        return "batch" if self.f["batch"] == "dict" else self.unpacked

    def unpack(self, w: Writer) -> None:
        if self.f["batch"] == "dict":
            for key in ("x", "y", "m") if self.masked else ("x", "y"):
                w.put(f'{self.n[key]} = batch["{self.dict_keys[key]}"]')

    def draw(self) -> str:
        """One batch from an endless source, as an expression."""
        if self.f["data"] == "stream":
            return f"next({self.role('stream')})"
        arrays = ["x_all", "y_all"] + (["m_all"] if self.masked else [])
        if self.f["loss"] == "ce_stream":
            arrays = ["corpus"]
        return f"get_batch({', '.join(self.role(a) for a in arrays)})"

    def divisor(self) -> str:
        f, i = self.f, self.n["i"]
        if f["division"] != "window":
            return self.role("k")
        if f["loop"] in ("chunks", "prefetch"):
            return f"len({self.n['window']})"
        if f["loop"] == "slices":
            return "len(starts)"
        return f"min({self.role('k')}, n_batches - {i} // {self.role('k')} * {self.role('k')})"

    def micro(self, w: Writer, window_count: str = "") -> None:
        """Forward, loss, division, backward, and whatever a faulty program does on every microbatch."""
        f, n, loss, division = self.f, self.n, self.n["loss"], self.f["division"]
        if f["clear"] == "top" and self.rng.random() < 0.6:
            self.clear(w, "clear")
            self.cleared = True
        else:
            self.cleared = False
        w2 = Writer()
        expression = self.loss_statements(w2)
        k = self.divisor() if division in (*CONSTANT, "window", "after_backward") else ""
        if division == "inline":
            expression = (
                f"{expression} / {k}" if self.rng.random() < 0.5 or " / " in expression else f"({expression}) / {k}"
            )
        bare = division in ("none", "sum_only") and not f["log"] and f["scaler"] == "none" and self.rng.random() < 0.25
        if not bare:
            w2.put(f"{loss} = {expression}")
        if f["autocast"]:
            with w.block(f"with torch.autocast({self.role('device')}, enabled={self.role('amp')}):"):
                w.splice(w2)
        else:
            w.splice(w2)
        if f["log"]:
            w.put(f"running += {loss}.item()")
        helper_divides = division == "twice" and f["loss_helper"]
        if division == "stmt" or (division == "window" and self.rng.random() < 0.5):
            w.put(f"{loss} = {loss} / {k}")
            k = "" if division == "window" else k
        elif division == "aug":
            w.put(f"{loss} /= {k}")
        elif division == "twice" and not helper_divides:
            w.put(self.rng.choice((f"{loss} = {loss} / {k}", f"{loss} /= {k}")))
        elif division == "twice" and f["second"] == "stmt":
            w.put(f"{loss} = {loss} / {k}", "second_division")
        target, mark = (
            (f"({expression})" if bare and not expression.endswith(")") else expression if bare else loss),
            "backward",
        )
        if bare and " / " in expression:
            target = f"({expression})"
        if (
            division == "backward"
            or (division == "window" and k)
            or (division == "twice" and f["second"] == "backward")
        ):
            target = f"({loss} / {k})"
            mark = "backward second_division" if division == "twice" else mark
        elif division in ("precount", "share"):
            share = f" * {self.count_text(self.batch_filled)}" if division == "share" else ""
            target = f"({loss}{share} / {window_count})"
        elif division == "deferred_mean":
            w.put(f"n_k = {self.count_text(self.batch_filled)}")
            target = f"({loss} * n_k)"
        if f["scaler"] == "none":
            w.put(f"{target}.backward()", mark)
        else:
            inner = (
                target[1:-1] if target.startswith("(") and target.endswith(")") and target.count("(") == 1 else target
            )
            w.put(
                f"{self.role('scaler') if f['scaler'] == 'arg' else self.local('scaler')}.scale({inner}).backward()",
                mark,
            )
        if division == "after_backward":
            w.put(f"{loss} = {loss} / {k}")
            w.put(f"running += {loss}.detach()")
        if division == "deferred":
            w.put(f"{n['count']} += {self.count_text(self.batch_filled)}")
        elif division == "deferred_mean":
            w.put(f"{n['count']} += n_k")
        if f["scaler_fault"] == "per_micro":
            w.put(f"{self.scaler}.unscale_({self.role('optimizer')})", "unscale")
        if f["clip_at"] == "micro":
            self.clip(w)
        if f["step_at"] == "micro":
            self.step(w)
            if f["scaler"] != "none":
                w.put(f"{self.scaler}.update()", "update")
        if f["sched"] == "micro":
            w.put(f"{self.role('scheduler')}.step()", "sched")

    @property
    def batch_filled(self) -> dict[str, str]:
        return self.batch

    def loss_statements(self, w: Writer) -> str:
        """The loss as an expression of this scope, through a helper if the composition has one."""
        f = self.f
        if f["clear"] == "top" and not self.cleared:
            self.clear(w, "clear")
        if not f["loss_helper"]:
            lines, expression = self.loss_text(self.scope_role, self.batch)
            for line in lines:
                w.put(line)
            return expression
        divide = f["division"] in ("helper", "twice")
        used: dict[str, str] = {}

        def inner(name: str) -> str:
            if self.has_class or f["shape"] == "nested":
                return self.scope_role(name)
            plain = "criterion" if name == "@criterion" else self.n.get(name, name)
            used[plain] = self.scope_role(name)
            return plain

        own = {"x": "x", "y": "y", "m": "mask"}
        lines, expression = self.loss_text(inner, own)
        body = Writer()
        body.depth = 1
        for line in lines:
            body.put(line)
        if divide:
            body.put(f"loss = {expression}")
            expression = f"loss / {inner('k')}" if f["k_from"] != "const" else f"loss / {self.role('k')}"
            used = {p: a for p, a in used.items() if "." not in p}
        body.put(f"return {expression}")
        data = ["x", "y", "mask"] if self.masked else ["x", "y"]
        name = self.rng.choice(("compute_loss", "loss_fn", "forward_loss"))
        head = Writer()
        parameters = [*(["self"] if self.has_class else []), *used, *data]
        head.put(f"def {name}({', '.join(parameters)}):")
        head.lines.extend(body.lines)
        (self.methods if self.has_class else self.nested if f["shape"] == "nested" else self.helpers).append(head)
        arguments = [*used.values(), *self.unpacked.split(", ")]
        return f"{'self.' if self.has_class else ''}{name}({', '.join(arguments)})"

    def scope_role(self, name: str) -> str:
        return self.local("criterion") if name == "@criterion" else self.role(name)

    # -- the update ----------------------------------------------------------------------------------------------

    @property
    def scaler(self) -> str:
        return self.role("scaler") if self.f["scaler"] == "arg" else self.local("scaler")

    def clear(self, w: Writer, mark: str = "") -> None:
        call = self.f["clear_call"]
        if call == "param":
            with w.block(f"for p in {self.role('model')}.parameters():"):
                w.put("p.grad = None")
        elif call == "model":
            w.put(f"{self.role('model')}.zero_grad()", mark)
        else:
            w.put(f"{self.role('optimizer')}.zero_grad({'set_to_none=True' if call == 'set_to_none' else ''})", mark)

    def clip(self, w: Writer) -> None:
        which = "clip_grad_norm_" if self.f["clip"] == "norm" else "clip_grad_value_"
        w.put(f"torch.nn.utils.{which}({self.role('model')}.parameters(), {self.role('clip')})", "clip")

    def step(self, w: Writer) -> None:
        if self.f["scaler"] == "none":
            w.put(f"{self.role('optimizer')}.step()", "step")
        else:
            w.put(f"{self.scaler}.step({self.role('optimizer')})", "step")

    def update(self, w: Writer, count: str) -> None:
        """What happens once a window: unscale, divide, clip, step, schedule, clear."""
        f = self.f
        once = (
            f["scaler"] != "none"
            and f["scaler_fault"] == "none"
            and f["step_at"] == "boundary"
            and f["clip_at"] == "boundary"
        )
        divides = f["division"] in ("deferred", "deferred_mean", "grads")
        unscale = once and (f["clip"] != "none" or (divides and self.rng.random() < 0.5))
        late = unscale and divides and self.rng.random() < 0.3
        if unscale and not late:
            w.put(f"{self.scaler}.unscale_({self.role('optimizer')})")
        if divides:
            self.divide_gradients(w, self.role("k") if f["division"] == "grads" else count)
        if late:
            w.put(f"{self.scaler}.unscale_({self.role('optimizer')})")
        if f["clip"] != "none" and f["clip_at"] == "boundary":
            self.clip(w)
        if f["step_at"] == "boundary":
            self.step(w)
            if f["scaler"] != "none" and f["scaler_fault"] != "per_micro":
                w.put(f"{self.scaler}.update()")
        if f["sched"] == "boundary":
            w.put(f"{self.role('scheduler')}.step()")
        if f["clear"] == "after":
            self.clear(w)

    def divide_gradients(self, w: Writer, divisor: str) -> None:
        form = self.rng.choice(("loop", "no_grad", "helper"))
        plain = self.f["loss"] == "ce_weighted" or self.f["division"] == "grads" or self.rng.random() < 0.4
        safe = divisor if plain else f"max({divisor}, 1)"
        parameters = f"{self.role('model')}.parameters()"
        if form == "helper" and self.f["shape"] != "function":
            name = self.rng.choice(("scale_grads_", "multiply_grads"))
            if not any(f"def {name}" in text for helper in self.helpers for _, text, _ in helper.lines):
                helper = Writer()
                with (
                    helper.block(f"def {name}(params, factor):"),
                    helper.block("for p in params:"),
                    helper.block("if p.grad is not None:"),
                ):
                    helper.put("p.grad.mul_(factor)")
                self.helpers.append(helper)
            w.put(f"{name}({parameters}, 1.0 / {safe})")
        elif form == "no_grad":
            with (
                w.block("with torch.no_grad():"),
                w.block(f"for p in {parameters}:"),
                w.block("if p.grad is not None:"),
            ):
                w.put(f"p.grad.div_({safe})")
        else:
            with w.block(f"for p in {parameters}:"), w.block("if p.grad is not None:"):
                w.put(f"p.grad /= {safe}")

    def call_update(self, w: Writer) -> None:
        """The update, in place or through the helper (which is written once)."""
        f, count = self.f, self.n["count"]
        if not f["update_helper"]:
            self.update(w, count)
            return
        if not self.update_call:
            name = self.rng.choice(("apply_update", "optimizer_step", "finish_window"))
            needs = f["division"] in ("deferred", "deferred_mean")
            head, body = Writer(), Writer()
            body.depth = 1
            before = dict(self.params)
            setup_before = len(self.setup.lines)
            self.update(body, "n")
            assert setup_before == len(self.setup.lines)
            parameters, arguments = [], []
            if self.has_class:
                parameters.append("self")
            elif f["shape"] == "helpers":
                text = "\n".join(text for _, text, _ in body.lines)
                wanted = [p for p in self.params if _mentions(text, p)]
                wanted += [local for local in ("scaler", "n_micro") if local not in wanted and _mentions(text, local)]
                parameters += wanted
                arguments += wanted
                self.params = {**before, **self.params}
            if needs:
                parameters.append("n")
                arguments.append(count)
            head.put(f"def {name}({', '.join(parameters)}):")
            head.lines.extend(body.lines)
            (self.methods if self.has_class else self.nested if f["shape"] == "nested" else self.helpers).append(head)
            self.update_call = f"{'self.' if self.has_class else ''}{name}({', '.join(arguments)})"
        w.put(self.update_call)

    update_call = ""

    # -- the whole -----------------------------------------------------------------------------------------------

    def render(self) -> Rendered:
        from tests.generated import loops

        self.nested: list[Writer] = []
        body = Writer()
        loops.write(self, body)
        f, n = self.f, self.n
        if f["scaler"] == "made":
            self.imports.add("import torch")
            self.setup.put(f"{self.local('scaler')} = torch.amp.GradScaler({self.role('device')}, init_scale=2.0**10)")
        if f["data"] in ("keep", "drop"):
            self.imports.add("from torch.utils.data import DataLoader")
            extra = ", drop_last=True" if f["data"] == "drop" else self.rng.choice(("", ", drop_last=False"))
            shuffle = self.rng.choice((", shuffle=True", ""))
            self.setup.put(
                f"{self.local(n['loader'])} = DataLoader({self.role('dataset')}, "
                f"batch_size={self.role('batch_size')}{shuffle}{extra})"
            )
        w = Writer()
        for line in sorted(self.imports, key=lambda text: (text.startswith(("from torch", "import torch")), text)):
            w.put(line)
        if self.header_consts or self.consts:
            w.put()
            for line in self.header_consts:
                w.put(line)
            for name in self.consts:
                w.put(f"{name} = 4")
        self.get_batch_helper()
        for helper in self.helpers:
            w.put(), w.put()
            w.splice(helper)
        w.put(), w.put()
        entry, call = self.write_entry(w, body)
        marks: dict[str, list[int]] = {}
        text = []
        for number, (depth, line, names) in enumerate(w.lines, 1):
            text.append("    " * depth + line if line else "")
            for name in names.split():
                marks.setdefault(name, []).append(number)
        return Rendered("\n".join(text) + "\n", entry, call, marks, self.ignore, self.dict_keys)

    def get_batch_helper(self) -> None:
        if self.f["data"] != "get_batch":
            return
        w = Writer()
        if self.f["loss"] == "ce_stream":
            self.header_block = "block_size"
            with w.block("def get_batch(corpus, block=3, batch=2):"):
                w.put("starts = torch.randint(len(corpus) - block, (batch,)).tolist()")
                w.put("x = torch.stack([corpus[s : s + block] for s in starts])")
                w.put("y = torch.stack([corpus[s + 1 : s + 1 + block] for s in starts])")
                w.put("return x, y")
        else:
            arrays = ["x", "y", "mask"] if self.masked else ["x", "y"]
            with w.block(f"def get_batch({', '.join(arrays)}, batch=2):"):
                w.put(f"pick = torch.randint({self.rng.choice(('x.size(0)', 'len(x)'))}, (batch,))")
                w.put("return " + ", ".join(f"{a}[pick]" for a in arrays))
        self.helpers.insert(0, w)

    def parameter(self, name: str) -> str:
        role = self.params[name]
        hints = {
            "model": "torch.nn.Module",
            "optimizer": "torch.optim.Optimizer",
            "k": "int",
            "clip": "float",
            "epochs": "int",
            "updates": "int",
            "device": "str",
            "amp": "bool",
            "batch_size": "int",
        }
        defaults = {"k": "4", "clip": "1.0", "epochs": "2", "device": '"cuda"', "amp": "True"}
        text = name
        if self.f["hints"] and role in hints:
            text += f": {hints[role]}"
        if role in defaults:
            text += f" = {defaults[role]}" if ":" in text else f"={defaults[role]}"
        return text

    def signature(self, names: list[str]) -> str:
        return ", ".join(sorted(map(self.parameter, names), key=lambda p: "=" in p))

    def write_entry(self, w: Writer, body: Writer) -> tuple[str, dict[str, Any]]:
        call: dict[str, Any] = {"fields": self.fields, "consts": self.consts, "method": "", "init": {}}
        if not self.has_class:
            call["args"] = dict(self.params)
            with w.block(f"def {self.n['run']}({self.signature(list(self.params))}):"):
                for inner in self.nested:
                    for part in (inner,):
                        w.splice(part)
                        w.put()
                # set-up code first: nested helpers use its names only when they are called
                at = len(w.lines)
                w.splice(self.setup)
                w.splice(body)
                assert at <= len(w.lines)
            return self.n["run"], call
        late = [p for p, role in self.params.items() if role in ("epochs", "updates")]
        early = [p for p in self.params if p not in late]
        call.update(
            method=self.n["run"], init={p: self.params[p] for p in early}, args={p: self.params[p] for p in late}
        )
        with w.block(f"class {self.n['cls']}:"):
            with w.block(f"def __init__(self, {self.signature(early)}):"):
                for name in early:
                    w.put(f"self.{name} = {name}")
                for depth, text, mark in self.setup.lines:
                    w.lines.append((w.depth + depth, text, mark))
            for method in self.methods:
                w.put()
                w.splice(method)
            w.put()
            with w.block(f"def {self.n['run']}({', '.join(['self', *([self.signature(late)] if late else [])])}):"):
                w.splice(body)
        return self.n["cls"], call


def _mentions(text: str, name: str) -> bool:
    import re

    return re.search(rf"(?<![\w.]){re.escape(name)}\b", text) is not None


def render(features: Features, rng: random.Random) -> Rendered:
    return Renderer(features, rng).render()
