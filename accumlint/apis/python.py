"""Python's own iteration helpers, progress bars, and context managers that do nothing to gradients."""

from accumlint.apis.language import Arg, Const, Copy, Detach, Is, Iterate, Row, Yields

SOURCE = "python 3.13.0, library/functions"
ITERTOOLS = "python 3.13.0, library/itertools"
TQDM = "tqdm 4.67.1, std.py"
TQDM_PARAMETERS = "iterable=None, desc=None, total=None, *args, **kwargs"
RICH = "rich 14.1.0, progress.py"


def builtin(name: str, parameters: str, *does: Iterate | Detach) -> Row:
    return Row(f"builtins.{name}", parameters, SOURCE, does, aliases=(name,))


ROWS = (
    builtin(
        "enumerate",
        "iterable, start=0",
        Iterate("enumerate", (Arg("iterable"),), start=Arg("start")),
    ),
    builtin("zip", "*iterables, strict=False", Iterate("zip", (Arg("*iterables"),))),
    builtin("iter", "object, sentinel=None", Iterate("iter", (Arg("object"),))),
    builtin("next", "iterator, default=None", Iterate("next", (Arg("iterator"),))),
    builtin("reversed", "sequence", Iterate("reversed", (Arg("sequence"),))),
    builtin("list", "iterable=()", Iterate("pass", (Arg("iterable"),))),
    builtin("tuple", "iterable=()", Iterate("pass", (Arg("iterable"),))),
    builtin("float", "x=0", Detach(Arg("x"))),
    builtin("int", "x=0", Detach(Arg("x"))),
    Row("copy.deepcopy", "x, memo=None", "python 3.13.0, library/copy", (Copy(Arg("x")),)),
    Row("builtins.print", "*args, **kwargs", SOURCE, (), aliases=("print",)),
    Row("builtins.isinstance", "object, classinfo", SOURCE, (), aliases=("isinstance",)),
    Row("itertools.chain", "*iterables", ITERTOOLS, (Iterate("chain", (Arg("*iterables"),)),)),
    Row("itertools.cycle", "iterable", ITERTOOLS, (Iterate("cycle", (Arg("iterable"),)),)),
    Row("itertools.count", "start=0, step=1", ITERTOOLS, (Iterate("count", (), start=Arg("start"), stop=Arg("step")),)),
    Row("itertools.repeat", "object, times=None", ITERTOOLS, (Iterate("repeat", (Arg("object"),), stop=Arg("times")),)),
    Row(
        "itertools.batched",
        "iterable, n, *, strict=False",
        ITERTOOLS,
        (Iterate("batched", (Arg("iterable"),), stop=Arg("n")),),
    ),
    Row(
        "more_itertools.chunked",
        "iterable, n, strict=False",
        "more-itertools 10.8.0, more.py",
        (Iterate("batched", (Arg("iterable"),), stop=Arg("n")),),
    ),
    # islice(it, stop) or islice(it, start, stop[, step]); the first bound is the stop where it stands alone.
    Row(
        "itertools.islice",
        "iterable, first, stop='absent', step=None",
        ITERTOOLS,
        (
            Iterate("islice", (Arg("iterable"),), start=Const(0), stop=Arg("first"), when=(Is(Arg("stop"), "absent"),)),
            Iterate(
                "islice",
                (Arg("iterable"),),
                start=Arg("first"),
                stop=Arg("stop"),
                when=(Is(Arg("stop"), "absent", negated=True, unknown=True),),
            ),
        ),
    ),
    Row("itertools.zip_longest", "*iterables, fillvalue=None", ITERTOOLS, (Iterate("zip", (Arg("*iterables"),)),)),
    Row("itertools.tee", "iterable, n=2", ITERTOOLS, (Iterate("pass", (Arg("iterable"),)),)),
    *(
        Row(f"tqdm.{name}", TQDM_PARAMETERS, TQDM, (Iterate("pass", (Arg("iterable"),)),))
        for name in (
            "tqdm",
            "auto.tqdm",
            "notebook.tqdm",
            "asyncio.tqdm",
            "rich.tqdm",
            "tqdm_notebook",
            "autonotebook.tqdm",
            "std.tqdm",
        )
    ),
    Row(
        "tqdm.contrib.tenumerate",
        "iterable, start=0, total=None, **kwargs",
        TQDM,
        (Iterate("enumerate", (Arg("iterable"),), start=Arg("start")),),
    ),
    Row("tqdm.contrib.tzip", "*iterables, **kwargs", TQDM, (Iterate("zip", (Arg("*iterables"),)),)),
    Row(
        "tqdm.trange",
        "*args, **kwargs",
        TQDM,
        (Iterate("range", (Arg("*args"),)),),
        aliases=("tqdm.auto.trange", "tqdm.notebook.trange"),
    ),
    Row(
        "rich.progress.track",
        "sequence, description='', total=None, *args, **kwargs",
        RICH,
        (Iterate("pass", (Arg("sequence"),)),),
    ),
    Row(
        "contextlib.nullcontext",
        "enter_result=None",
        "python 3.13.0, library/contextlib",
        (Yields(Arg("enter_result")),),
    ),
    Row("contextlib.suppress", "*exceptions", "python 3.13.0, library/contextlib", ()),
)
