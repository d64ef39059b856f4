"""The subprocess of `accumlint verify`: loads the user's file and factory, runs `accumcheck`, writes its answer.

Started by `factory.verify` as a plain file, with the request on stdin. What the user's code prints goes to its own
stdout; the answer goes to a file.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

OPTIONS = (
    "optimizer", "accumulation_steps", "max_norm", "norm_type", "clip_value", "dtype", "tolerance", "merge", "seed",
    "max_backwards", "force_cases", "world_size", "wrap",
)  # fmt: skip


class BadFactoryError(Exception):
    """The factory or the checked function is not what was asked for."""


def load_target(path: str, source: str, name: str) -> Any:
    """Execute `source` as the module at `path`, without `__main__`, and return its function."""
    module = types.ModuleType(Path(path).stem)
    module.__file__ = path
    sys.modules[module.__name__] = module  # so that dataclasses and pickling find it; a factory that imports it as well
    sys.path.insert(0, str(Path(path).parent))
    exec(compile(source, path, "exec"), vars(module))
    value: Any = module
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            raise BadFactoryError(f"{path} defines no {name}") from None
    if not callable(value):
        raise BadFactoryError(f"{path}::{name} is not callable")
    return value


def load_factory(module: str, function: str) -> Any:
    if module.endswith(".py"):
        spec = importlib.util.spec_from_file_location(Path(module).stem, module)
        if spec is None or spec.loader is None or not Path(module).is_file():
            raise BadFactoryError(f"no such file: {module}")
        loaded = importlib.util.module_from_spec(spec)
        if Path(module).stem not in sys.modules:
            sys.modules[Path(module).stem] = loaded
        spec.loader.exec_module(loaded)
    else:
        loaded = importlib.import_module(module)
    factory = getattr(loaded, function, None)
    if not callable(factory):
        raise BadFactoryError(f"{module} defines no function {function}")
    return factory


def read_case(case: Any) -> dict[str, Any]:
    """Return what the factory gave as a dict; raises if something is missing or unknown."""
    given = dict(case) if isinstance(case, dict) else {k: v for k, v in vars(case).items() if not k.startswith("_")}
    missing = [key for key in ("model", "microbatches", "loss_sum", "count") if key not in given]
    if missing:
        raise BadFactoryError(f"the factory's result lacks {', '.join(missing)}")
    unknown = sorted(given.keys() - {"model", "microbatches", "loss_sum", "count", "arguments", *OPTIONS})
    if unknown:
        raise BadFactoryError(f"the factory's result has unknown entries: {', '.join(unknown)}")
    return given


def make_train(function: Any, arguments: Any) -> Any:
    """Return the loop as accumcheck calls it."""

    def train(model: Any, microbatches: Any, optimizer: Any) -> None:
        if arguments is None:
            function(model, microbatches, optimizer)
            return
        given = arguments(model, microbatches, optimizer)
        if isinstance(given, dict):
            function(**given)
        else:
            function(*given)

    if arguments is None:
        try:
            inspect.signature(function).bind(None, None, None)
        except TypeError as error:
            raise BadFactoryError(
                f"the function cannot be called with (model, microbatches, optimizer): {error}; the factory must give "
                "`arguments`"
            ) from None
    return train


def limit(request: dict[str, Any]) -> None:
    """Limit CPU time and memory from here on; torch is loaded already."""
    try:
        import resource
    except ImportError:  # not on Windows; the parent's time-out still holds
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime + request["cpu"]) + 1
    _lower(resource.RLIMIT_CPU, seconds, seconds + 5)
    statm = Path("/proc/self/statm")
    if request["memory"] is not None and statm.exists():
        size = int(statm.read_text().split()[0]) * resource.getpagesize() + int(request["memory"])
        _lower(resource.RLIMIT_AS, size, size)


def _lower(kind: int, soft: int, hard: int) -> None:
    """Set a limit, unless the one that holds is lower already: that one cannot be raised."""
    import resource

    highest = resource.getrlimit(kind)[1]
    if highest != resource.RLIM_INFINITY:
        soft, hard = min(soft, highest), min(hard, highest)
    resource.setrlimit(kind, (soft, hard))


def run(request: dict[str, Any]) -> dict[str, Any]:
    try:
        import torch
    except Exception as error:
        return {"outcome": "torch is missing", "error": f"{type(error).__name__}: {error}"}
    from accumlint.harness.check import accumcheck

    torch.set_num_threads(1)
    stage = "setting the limits of time and memory"
    try:
        limit(request)
        stage = "the checked file"
        function = load_target(request["path"], request["source"], request["name"])
        stage = "the factory"
        case = read_case(load_factory(request["module"], request["function"])())
        train = make_train(function, case.pop("arguments", None))
        stage = ""
        report = accumcheck(train, case.pop("model"), case.pop("microbatches"), timeout=request["cpu"], **case)
    except BaseException as error:  # also SystemExit of the user's code
        text = str(error) if stage == "" or isinstance(error, BadFactoryError) else f"{stage} raised {error!r}"
        return {"outcome": "could not be checked", "error": text[:2000], "type": type(error).__name__}
    outcome = "equivalent" if report.equivalent else "not equivalent"
    return {"outcome": outcome, "report": report.to_dict(), "text": str(report)}


def main() -> None:
    request = json.loads(sys.stdin.buffer.read())
    sys.path[:] = [p for p in request["sys_path"] if p]
    answer = run(request)
    temporary = Path(request["answer"] + ".part")
    temporary.write_text(json.dumps(answer), encoding="utf-8")
    temporary.rename(request["answer"])
    sys.stdout.flush()
    os._exit(0)  # whatever threads the user's code left


if __name__ == "__main__":
    main()
