"""Fresh random data and filled tensors: what is drawn anew has the same shape, hence the same count,
each time, or that of what it is drawn like."""

from accumlint.apis.language import Arg, Draw, Row

SOURCE = "torch 2.13.0, _C/_VariableFunctions.pyi"
DRAWS = (
    "rand",
    "randn",
    "randint",
    "randperm",
    "normal",
    "bernoulli",
    "multinomial",
)
LIKE = ("rand_like", "randn_like", "randint_like")

ROWS = (
    *(Row(f"torch.{name}", "*args, **kwargs", SOURCE, (Draw(),)) for name in DRAWS),
    *(Row(f"torch.{name}", "input, *args, **kwargs", SOURCE, (Draw(like=Arg("input")),)) for name in LIKE),
    Row("torch.Tensor.random_", "*args, **kwargs", SOURCE, (Draw(),)),
    Row("torch.Tensor.normal_", "*args, **kwargs", SOURCE, (Draw(),)),
    Row("torch.Tensor.uniform_", "*args, **kwargs", SOURCE, (Draw(),)),
    *(
        Row(f"numpy.random.{name}", "*args, **kwargs", "numpy 2.3.0, random/mtrand.pyi", (Draw(),))
        for name in ("rand", "randn", "randint", "choice", "permutation", "normal", "uniform", "random")
    ),
)
