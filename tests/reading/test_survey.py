"""Walking, surveying, and the two gates before reading."""

from __future__ import annotations

import dataclasses
import time
from typing import get_args

import pytest

from accumlint.reading import ir, walk
from accumlint.reading.prefilter import (
    Gate,
    derives_trainer,
    may_train,
    parse,
    runs_backward,
    worth_parsing,
    worth_reading,
)
from accumlint.reading.read import read_module
from accumlint.reading.survey import Survey, survey

TRAINER = """
import torch

def helper(loss, optimizer=make()):
    backward(loss)

class Trainer(Base, option=config()):
    size = compute()

    @property
    def step_size(self): return self.get()

    @step_size.setter
    def step_size(self, value): self.set(value)

    @decorate(1)
    def fit(self, loader):
        for epoch in range(2):
            for batch in loader():
                self.step(batch)
                run = lambda: later(batch)
            else:
                done()
        while more():
            helper(1)

    def step(self, batch):
        def closure():
            while True:
                inner()
            return loss.backward()
        self.model.step()
        self.optimizer.step(closure)[0](2)
        return closure

if torch.cuda.is_available():
    def main(): first()
else:
    def main(): second()
for x in y:
    main()
"""


def surveyed(text: str) -> Survey:
    return survey(read_module(text, "example.py"))


def test_functions_have_qualified_names_in_the_order_of_the_source() -> None:
    found = surveyed(TRAINER).functions
    names = [name.partition("@")[0] for name in found]
    assert names == [
        "helper",
        "Trainer.step_size",
        "Trainer.step_size",
        "Trainer.fit",
        "Trainer.step",
        "Trainer.step.closure",
        "main",
        "main",
    ]
    assert [site.dotted for site in found["main"].calls] == ["second"]
    assert found["Trainer.step"].class_name == "Trainer"
    assert found["Trainer.step"].enclosing is None
    assert found["Trainer.step.closure"].class_name is None
    assert found["Trainer.step.closure"].enclosing == "Trainer.step"
    assert [site.dotted for site in found["Trainer.step_size"].calls] == ["self.get"]


def test_calls_belong_to_the_function_that_makes_them() -> None:
    found = surveyed(TRAINER)
    fit = found.functions["Trainer.fit"]
    assert [(site.dotted, site.loop_depth) for site in fit.calls] == [
        ("range", 0),
        ("loader", 1),
        ("self.step", 2),
        ("later", 2),
        ("done", 1),
        ("more", 1),
        ("helper", 1),
    ]
    assert fit.names == {"range", "loader", "later", "done", "more", "helper"}
    assert fit.own_methods == {"step"}
    step = found.functions["Trainer.step"]
    assert step.own_methods == frozenset()
    assert step.attributes == {"step"}
    assert [site.dotted for site in step.calls] == ["self.model.step", None, "self.optimizer.step"]
    assert [site.dotted for site in found.module_calls] == [
        "make",
        "config",
        "compute",
        "decorate",
        "torch.cuda.is_available",
        "main",
    ]


def test_loops() -> None:
    found = surveyed(TRAINER)
    assert [(loop.function, loop.depth, len(loop.calls)) for loop in found.loops] == [
        ("Trainer.fit", 0, 4),
        ("Trainer.fit", 1, 2),
        ("Trainer.fit", 0, 2),
        ("Trainer.step.closure", 0, 1),
        ("", 0, 1),
    ]


def test_classes_and_their_methods() -> None:
    found = surveyed(TRAINER).classes["Trainer"]
    assert list(found.methods) == ["step_size", "fit", "step"]
    assert found.definition.name == "Trainer"


def test_calls_named() -> None:
    found = surveyed(TRAINER)
    assert [site.dotted for site in found.calls_named("backward")] == ["backward", "loss.backward"]
    assert found.calls_named("nothing") == ()
    assert [site.node for site in found.calls] == sorted(site.node for site in found.calls)


def test_every_node_kind_has_children() -> None:
    kinds = {*get_args(ir.Expression), *get_args(ir.Statement)}
    assert len(kinds) > 40
    assert kinds == set(walk._CHILDREN)
    assert all(dataclasses.is_dataclass(kind) for kind in kinds)


def test_walk_can_stay_out_of_scopes() -> None:
    module = read_module(TRAINER, "example.py")
    outside = [node.id for node in walk.walk(module.body, into_scopes=False) if isinstance(node, ir.Name)]
    assert outside == ["make", "Base", "config", "torch", "x", "y", "main"]
    (function,) = [node for node in walk.walk(module.body) if isinstance(node, ir.Function) and node.name == "fit"]
    inside = [
        walk.dotted(node.function) for node in walk.walk(function, into_scopes=False) if isinstance(node, ir.Call)
    ]
    assert inside == ["decorate", "range", "loader", "self.step", "done", "more", "helper"]


@pytest.mark.parametrize(("text", "expected"), [("a.b.c", "a.b.c"), ("a", "a"), ("a().b", None), ("a[0].b", None)])
def test_dotted(text: str, expected: str | None) -> None:
    (only,) = read_module(text, "example.py").body
    assert isinstance(only, ir.Evaluate)
    assert walk.dotted(only.value) == expected


# ------------------------------------------------------------------------------------------------- gates

HEAD = """
class Model(PreTrainedModel):
    def forward(self, x, labels=None, **kwargs):
        return self.loss_function(x, labels)
"""


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("loss.backward()\noptimizer.step()\n", Gate.LOOP),
        ("self.manual_backward(loss)\nopt.step()\n", Gate.LOOP),
        ("accelerator.backward(loss); optimizer.step()", Gate.LOOP),
        ("forward_backward_func(step)", Gate.LOOP),
        ("step = partial(run, loss.backward)", Gate.LOOP),
        ("scaler_obj(loss, opt, update_grad=(i + 1) % n == 0)", Gate.LOOP),
        ("loss_scaler(loss, optimizer, parameters=p)", Gate.LOOP),
        ("class T(Trainer):\n    def compute_loss(self, model, inputs): return 1\n", Gate.TRAINER),
        ("class T(L):\n    async def training_step(self, batch): return 1\n", Gate.TRAINER),
        (HEAD, Gate.HEAD),
        ("env.step(action)\nprofiler.step()\n", Gate.NONE),
        ("", Gate.NONE),
    ],
)
def test_gates(text: str, gate: Gate) -> None:
    assert may_train(text.encode()) == gate
    assert worth_parsing(text, gate) == gate
    assert worth_reading(parse(text)) == gate


@pytest.mark.parametrize(
    "text",
    [
        "class F(Function):\n    @staticmethod\n    def backward(ctx, step): return ctx\n",
        "# loss.backward() and optimizer.step()\n",
        "print('compute_loss')\n",
        "class M(PreTrained):\n    def forward(self, x, labels, **kwargs): return x  # no loss\n",
        HEAD.replace("x, labels)", "x, labels, **kwargs)"),
    ],
)
def test_syntax_narrows_what_bytes_let_through(text: str) -> None:
    assert may_train(text.encode())
    assert not worth_reading(parse(text), may_train(text.encode()))


@pytest.mark.parametrize(
    "text",
    [
        "# kept for backward compatibility; optimizer.step()\n",
        "class F(Function):\n    def forward(ctx, step): ctx.save_for_backward(step)\n    def backward(ctx, g): pass\n",
        "self.max_backward = 3 + config.step\n",
        HEAD.replace("x, labels)", "x, labels, **kwargs)"),
        HEAD.replace("labels=None, ", "").replace("x, labels)", "x, x['labels'])"),
        HEAD.replace("**kwargs", "mask=None") + "\n    def run(self, **kwargs):\n        pass\n",
    ],
)
def test_places_narrow_what_words_let_through(text: str) -> None:
    gate = may_train(text.encode())
    assert gate
    assert not worth_parsing(text, gate)
    assert not worth_reading(parse(text), gate)


@pytest.mark.parametrize(
    "text",
    [
        "(loss\n  .  # the whole of it\n  backward)()\noptimizer.step()\n",
        "step(loss.backward)\n",
        "(loss.backward)  (\n)\nstep()\n",
        "scaler.scale(loss).\\\n    backward()\nstep()\n",
    ],
)
def test_a_backward_is_seen_however_it_is_written(text: str) -> None:
    assert worth_parsing(text, may_train(text.encode())) == Gate.LOOP
    assert worth_reading(parse(text)) == Gate.LOOP


@pytest.mark.parametrize(
    "text",
    [
        HEAD.replace("\n", "\r\n"),
        HEAD.replace("\n", "\r"),
        HEAD.replace(
            "    def forward(self, x, labels=None, **kwargs):", "    def forward(\n  self,\n  labels, **kw\n    ):"
        ),
        HEAD.replace("):", '):\n        """Text\nclass that stands at the left.\n"""'),
        HEAD + "\n    def other(self): return (\n",
        HEAD.replace("        return", "# a comment at the left\n        return"),
        HEAD + "if __name__ == '__main__':\n    main()\n",
        HEAD.replace("    def forward(", "    def forward(self): pass\n\n    @cached\n    def forward("),
    ],
)
def test_a_head_is_found_in_its_text_alone(text: str) -> None:
    assert worth_parsing(text, may_train(text.encode())) == Gate.HEAD


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("accelerator.backward(loss)", True),
        ("manual_backward (loss)", True),
        ("scaler(loss, update_grad=True)", True),
        ("def backward(self, loss): pass", False),
        ("ctx.save_for_backward(x)", False),
        ("# the backward pass", False),
        ("self.backward_hook(x)", False),
    ],
)
def test_a_module_that_runs_a_backward(text: str, runs: bool) -> None:
    assert runs_backward(text.encode()) == runs


def test_a_text_that_is_no_python_passes_to_be_reported() -> None:
    assert worth_reading(parse("print 'x'\nloss.backward()"), Gate.LOOP) == Gate.LOOP


def test_only_the_gates_asked_for_are_answered() -> None:
    assert worth_reading(parse("loss.backward()\n" + HEAD), Gate.HEAD) == Gate.HEAD
    assert worth_reading(parse("loss.backward()"), Gate.HEAD) == Gate.NONE


def test_the_gates_do_not_import_libcst() -> None:
    import subprocess
    import sys

    code = "import sys, accumlint.reading.prefilter; sys.exit('libcst' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("text", "derives"),
    [
        ("class A(BaseTrainer):\n", True),
        ("  class A(x.y.Runner, B):\n", True),
        ("class A(Mixin, TrainerBase, metaclass=M):\n", True),
        ("class A(Solver[T]):\n", True),
        ("class Trainer(nn.Module):\n", False),
        ("class A(B):  # of a Trainer\n", False),
        ("class A:\n    trainer = Trainer()\n", False),
    ],
)
def test_a_class_that_may_inherit_its_loop(text: str, *, derives: bool) -> None:
    assert derives_trainer(text.encode()) is derives


@pytest.mark.parametrize(
    "text", ["class A(\n" * 400_000, "class A(" + "a " * 2_000_000, ("class A(" + "a," * 99 + "\n") * 20_000]
)
def test_asking_for_it_is_linear(text: str) -> None:
    begin = time.process_time()
    assert not derives_trainer(text.encode())
    assert time.process_time() - begin < 10
