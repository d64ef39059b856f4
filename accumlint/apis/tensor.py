"""Methods and functions of tensors that change what a number, a mask or a gradient stands for.

The methods are also what is assumed of a receiver of which nothing is known (`Registry.by_method`).
"""

from accumlint.apis.language import (
    Arg,
    Arithmetic,
    Backward,
    Clamp,
    ClassRow,
    Clear,
    Const,
    Count,
    Counts,
    Detach,
    Effect,
    Is,
    Iterate,
    Operand,
    Receiver,
    Reduce,
    Row,
    Same,
    ScaleGradients,
    Select,
)

TENSOR = "torch.Tensor"
SOURCE = "torch 2.13.0, _C/__init__.pyi"
THIS = Receiver()

SAME_SHAPES = (
    "to",
    "cuda",
    "cpu",
    "float",
    "double",
    "half",
    "bfloat16",
    "long",
    "int",
    "bool",
    "type",
    "type_as",
    "view",
    "view_as",
    "reshape",
    "reshape_as",
    "flatten",
    "unflatten",
    "squeeze",
    "squeeze_",
    "unsqueeze",
    "unsqueeze_",
    "transpose",
    "permute",
    "movedim",
    "t",
    "contiguous",
    "clone",
    "pin_memory",
    "requires_grad_",
    "retain_grad",
    "full_tensor",
    "to_local",
)
DETACHED = ("item", "detach", "detach_", "numpy", "tolist", "data_ptr")
OPERATORS = {
    "add": "+",
    "sub": "-",
    "subtract": "-",
    "mul": "*",
    "multiply": "*",
    "div": "/",
    "divide": "/",
    "true_divide": "/",
    "floor_divide": "//",
    "remainder": "%",
    "pow": "**",
    "ne": "!=",
    "not_equal": "!=",
    "eq": "==",
    "lt": "<",
    "less": "<",
    "le": "<=",
    "gt": ">",
    "greater": ">",
    "ge": ">=",
    "logical_and": "&",
    "logical_or": "|",
}
CUTS = (("chunk", "pieces", "chunks"), ("tensor_split", "pieces", "sections"), ("split", "split", "split_size"))
"""Methods that cut a tensor along its rows: the kind of cut, the parameter with the number or length of the parts."""

SECOND = {"pow": "exponent"}
REDUCED = {"sum": "sum", "mean": "mean", "nansum": "sum", "nanmean": "mean"}
REDUCTION_PARAMETERS = "dim=None, keepdim=False, *, dtype=None"
WHOLE = (Is(Arg("dim"), None),)


def method(name: str, parameters: str, *does: Effect, source: str = SOURCE) -> Row:
    return Row(f"{TENSOR}.{name}", parameters, source, does)


def function(name: str, parameters: str, *does: Effect) -> Row:
    return Row(f"torch.{name}", parameters, "torch 2.13.0, _C/_VariableFunctions.pyi", does)


def cut(operand: Operand, kind: str, number: str) -> Iterate:
    """Other dimensions than the first hold no microbatches."""
    return Iterate(kind, (operand,), stop=Arg(number), when=(Is(Arg("dim"), 0),))


def clamped(operand: Operand) -> tuple[Effect, ...]:
    """`clamp` with either bound, or both; a bound that is left out is None."""
    low, high = Arg("min"), Arg("max")
    return (
        Clamp(operand, low=low, high=None, when=(Is(high, None),)),
        Clamp(operand, low=None, high=high, when=(Is(low, None), Is(high, None, negated=True, unknown=True))),
        Clamp(
            operand,
            low,
            high,
            when=(Is(low, None, negated=True, unknown=True), Is(high, None, negated=True, unknown=True)),
        ),
    )


ROWS = (
    method(
        "backward",
        "gradient=None, retain_graph=None, create_graph=False, inputs=None",
        Backward(THIS),
        source="torch 2.13.0, _tensor.py",
    ),
    *(method(name, "*args, **kwargs", Same(THIS)) for name in SAME_SHAPES),
    *(method(name, "*args, **kwargs", Detach(THIS)) for name in DETACHED),
    *(method(name, f"{number}, dim=0", cut(THIS, kind, number)) for name, kind, number in CUTS),
    *(function(name, f"input, {number}, dim=0", cut(Arg("input"), kind, number)) for name, kind, number in CUTS),
    Row(
        "numpy.array_split",
        "ary, sections, axis=0",
        "numpy 2.3.0, lib/_shape_base_impl.py",
        (Iterate("pieces", (Arg("ary"),), stop=Arg("sections"), when=(Is(Arg("axis"), 0),)),),
    ),
    *(
        method(name, f"{SECOND.get(name, 'other')}, **kwargs", Arithmetic(sign, THIS, Arg(SECOND.get(name, "other"))))
        for name, sign in OPERATORS.items()
    ),
    *(
        function(
            name,
            f"input, {SECOND.get(name, 'other')}, **kwargs",
            Arithmetic(sign, Arg("input"), Arg(SECOND.get(name, "other"))),
        )
        for name, sign in OPERATORS.items()
    ),
    method("add_", "other, *, alpha=1", Arithmetic("+", THIS, Arg("other"), in_place=True)),
    method("sub_", "other, *, alpha=1", Arithmetic("-", THIS, Arg("other"), in_place=True)),
    # In place on `p.grad` these scale the gradient; on a loss or a number they are the operator.
    method("mul_", "other", ScaleGradients(THIS, by=Arg("other"))),
    method("multiply_", "other", ScaleGradients(THIS, by=Arg("other"))),
    method("div_", "other, *, rounding_mode=None", ScaleGradients(THIS, by=Arg("other"), divide=True)),
    method("true_divide_", "other", ScaleGradients(THIS, by=Arg("other"), divide=True)),
    method("zero_", "", Clear(THIS)),
    method("neg", "", Arithmetic("*", THIS, Const(-1))),
    method("numel", "", Counts(THIS)),
    method("nelement", "", Counts(THIS)),
    method("size", "dim=None", Counts(THIS, Count.ROWS, when=(Is(Arg("dim"), 0),))),
    method("__len__", "", Counts(THIS, Count.ROWS)),
    method("count_nonzero", "dim=None", Counts(THIS, Count.VALID_TARGETS, when=WHOLE)),
    *(method(name, REDUCTION_PARAMETERS, Reduce(THIS, kind, when=WHOLE)) for name, kind in REDUCED.items()),
    *(
        function(name, f"input, {REDUCTION_PARAMETERS}", Reduce(Arg("input"), kind, when=WHOLE))
        for name, kind in REDUCED.items()
    ),
    *(method(name, "min=None, max=None", *clamped(THIS)) for name in ("clamp", "clip")),
    method("clamp_min", "min", Clamp(THIS, low=Arg("min"))),
    method("clamp_max", "max", Clamp(THIS, high=Arg("max"))),
    *(function(name, "input, min=None, max=None", *clamped(Arg("input"))) for name in ("clamp", "clip")),
    method("maximum", "other", Clamp(THIS, low=Arg("other"))),
    method("minimum", "other", Clamp(THIS, high=Arg("other"))),
    function("maximum", "input, other", Clamp(Arg("input"), low=Arg("other"))),
    function("minimum", "input, other", Clamp(Arg("input"), high=Arg("other"))),
    method("masked_select", "mask", Select(THIS, by=Arg("mask"))),
    function("masked_select", "input, mask", Select(Arg("input"), by=Arg("mask"))),
    function("numel", "input", Counts(Arg("input"))),
    function("count_nonzero", "input, dim=None", Counts(Arg("input"), Count.VALID_TARGETS, when=WHOLE)),
    function("squeeze", "input, *args, **kwargs", Same(Arg("input"))),
    function("unsqueeze", "input, dim", Same(Arg("input"))),
    function("reshape", "input, shape", Same(Arg("input"))),
    function("flatten", "input, *args, **kwargs", Same(Arg("input"))),
    function("transpose", "input, dim0, dim1", Same(Arg("input"))),
    function("tensor", "data, *, dtype=None, device=None, requires_grad=False, pin_memory=False", Same(Arg("data"))),
    function("as_tensor", "data, dtype=None, device=None", Same(Arg("data"))),
    function("from_numpy", "ndarray", Same(Arg("ndarray"))),
    function("stack", "tensors, dim=0, *, out=None", Same(Arg("tensors"))),
    function("cat", "tensors, dim=0, *, out=None", Same(Arg("tensors"))),
    function("concat", "tensors, dim=0, *, out=None", Same(Arg("tensors"))),
    function("detach", "input", Detach(Arg("input"))),
    function("nan_to_num", "input, nan=0.0, posinf=None, neginf=None", Same(Arg("input"))),
    function("_foreach_mul_", "self, scalar", ScaleGradients(Arg("self"), by=Arg("scalar"))),
    function("_foreach_div_", "self, scalar", ScaleGradients(Arg("self"), by=Arg("scalar"), divide=True)),
    function("_foreach_zero_", "self", Clear(Arg("self"))),
    method("nan_to_num", "nan=0.0, posinf=None, neginf=None", Same(THIS)),
    method("register_hook", "hook", source="torch 2.13.0, _tensor.py"),
)

CLASSES = (ClassRow(TENSOR),)
