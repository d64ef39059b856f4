"""The subprocess worker: limits hold, errors are results, torch starts once."""

from __future__ import annotations

import math
import os
import sys
import sysconfig

import pytest

pytest.importorskip("torch")

from accumlint.harness.runner import GIB, Job, Runner, Status

pytestmark = pytest.mark.xdist_group("runner")


@pytest.fixture(scope="module")
def runner():
    with Runner(timeout=20, memory=GIB) as shared:
        yield shared


def job(body: str, **fields) -> Job:
    lines = "\n".join("    " + line for line in body.splitlines())
    return Job("j", f"def run(torch):\n{lines}\n", **fields)


def test_many_jobs_one_start_and_deterministic():
    with Runner(timeout=20) as fresh:
        source = "w = torch.randn(3, requires_grad=True)\nw.tanh().sum().backward()\nreturn {'g': w.grad.tolist()}"
        results = fresh.run_all([job(source, seed=seed % 2) for seed in range(40)])
        assert all(result.ok for result in results)
        assert fresh.starts == 1
        assert len({str(result.value) for result in results[::2]}) == 1
        assert results[0].value != results[1].value
        assert fresh.torch_version


def test_state_does_not_leak_between_jobs(runner):
    assert runner.run(job("torch.set_default_dtype(torch.float64); torch.set_grad_enabled(False)\nreturn {}")).ok
    result = runner.run(
        job("x = torch.ones(1, requires_grad=True) * 2\nreturn {'d': str(x.dtype), 'g': x.requires_grad}")
    )
    assert result.value == {"d": "torch.float32", "g": True}
    assert runner.run(Job("a", "global_name = 1\ndef run(torch): return {}")).ok
    assert runner.run(job("return {'x': global_name}")).error_type == "NameError"


def test_plain_values_scalars_and_nan(runner):
    result = runner.run(job("return {'a': torch.ones(3).sum(), 'n': float('nan'), 'l': [1, (2, None)], 't': True}"))
    assert result.value["a"] == 3.0
    assert math.isnan(result.value["n"])
    assert result.value["l"] == [1, [2, None]]


@pytest.mark.parametrize(
    ("source", "kind", "line"),
    [
        ("def run(torch):\n    return 1 / 0\n", "ZeroDivisionError", 2),
        ("def run(torch:\n", "SyntaxError", 1),
        ("x = 1\n", "NameError", None),
        ("def run(torch): return [1]\n", "TypeError", None),
        ("def run(torch): return {'t': torch.ones(2)}\n", "TypeError", None),
        ("def run(torch):\n    raise SystemExit(3)\n", "SystemExit", 2),
        ("def run(torch):\n    raise KeyboardInterrupt\n", "KeyboardInterrupt", 2),
        ("def run(torch):\n    return run(torch)\n", "RecursionError", 2),
        ("def run(torch): return {'x': 'y' * 2_000_000}\n", "ValueError", None),
        ("\0", "SyntaxError", None),
    ],
)
def test_errors_are_results(runner, source, kind, line):
    result = runner.run(Job("e", source))
    assert (result.status, result.error_type) == (Status.RAISED, kind)
    if line is not None:
        assert result.line == line
    assert runner.run(job("return {'x': 1}")).value == {"x": 1}


@pytest.mark.parametrize(
    "body",
    [
        "import os\nreturn {}",
        "import socket\nreturn {}",
        "open('x')\nreturn {}",
        "eval('1')\nreturn {}",
        "torch.save({}, 'x.pt')\nreturn {}",
        "s = __builtins__['__import__']('sys')\nreturn {}",
        "torch.sys.modules['socket'].socket()\nreturn {}",
        "torch.os.system('true')\nreturn {}",
        "torch.sys.modules['subprocess'].run(['true'])\nreturn {}",
    ],
)
def test_the_fence(runner, body):
    assert runner.run(job(body)).status is Status.RAISED


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX calls")
@pytest.mark.parametrize(
    "call",
    [
        "torch.os.open('made', 0o101)",
        "torch.sys.modules['io'].open('made', 'w')",
        "torch.os.mkdir('made')",
        "torch.os.symlink('kept', 'made')",
        "torch.os.rename('kept', 'made')",
        "torch.os.unlink('kept')",
        "torch.os.truncate('kept', 0)",
        "torch.os.chmod('kept', 0)",
        "torch.os.fork()",
        "torch.os.kill(torch.os.getpid(), 0)",
        "torch.os.posix_spawn('/bin/true', ['true'], {})",
        "torch.os.execv('/bin/true', ['true'])",
        "torch.sys.modules['ctypes'].CDLL(None)",
    ],
)
def test_no_way_around_the_fence(runner, tmp_path, call):
    """With absolute paths: the worker has a folder of its own."""
    (tmp_path / "kept").write_text("x")
    absolute = call.replace("'kept", f"'{tmp_path}/kept").replace("'made", f"'{tmp_path}/made")
    result = runner.run(job(f"{absolute}\nreturn {{}}"))
    assert (result.status, result.error_type) == (Status.RAISED, "PermissionError")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").read_text() == "x"
    assert (tmp_path / "kept").stat().st_mode & 0o200


def test_allowed_imports(runner):
    body = "import math\nimport torch.nn.functional as F\nfrom contextlib import nullcontext\nreturn {'x': math.pi}"
    assert runner.run(job(body)).ok


def test_the_environment_is_dropped():
    os.environ["ACCUMLINT_TEST_SECRET"] = "1"
    os.environ["HTTPS_PROXY"] = "http://127.0.0.1:9"
    body = "e = torch.os.environ\nreturn {'names': sorted(e)}"
    try:
        with Runner() as fresh:
            names = fresh.run(job(body)).value["names"]
    finally:
        del os.environ["ACCUMLINT_TEST_SECRET"], os.environ["HTTPS_PROXY"]
    assert "ACCUMLINT_TEST_SECRET" not in names
    assert not [name for name in names if "proxy" in name.lower()]


def test_noise_is_captured_and_cut(runner):
    result = runner.run(job("for i in range(100000): print('noise')\nreturn {'x': 1}"))
    assert result.value == {"x": 1}
    assert len(result.output) < 11_000
    assert "more characters" in result.output
    body = "torch.os.write(1, b'{}')\ntorch.sys.__stdout__.write('{}')\nreturn {'x': 2}"
    assert runner.run(job(body)).value == {"x": 2}


def test_timeout_and_restart():
    with Runner(timeout=20) as fresh:
        assert fresh.run(job("return {}")).ok
        result = fresh.run(job("while True: pass", timeout=0.5))
        assert result.status is Status.TIMEOUT
        assert "0.5 s" in result.error
        assert fresh.run(job("return {'x': 1}")).value == {"x": 1}
        assert fresh.starts == 2


def test_crash_and_restart(runner):
    assert runner.run(job("return {'x': 1}")).value == {"x": 1}  # whichever test comes first, it runs
    before = runner.starts
    result = runner.run(job("torch.os._exit(7)"))
    assert result.status is Status.CRASHED
    assert "exit code 7" in result.error
    assert runner.run(job("return {'x': 1}")).value == {"x": 1}
    assert runner.starts == before + 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_AS is dependable on Linux only")
@pytest.mark.parametrize("body", ["return {'x': torch.ones(1 << 34).sum()}", "x = [0] * (1 << 32)\nreturn {}"])
def test_memory_bomb(runner, body):
    result = runner.run(job(body, memory=256 << 20))
    assert result.status is Status.MEMORY
    assert runner.run(job("return {'x': 1}")).held == ("cpu", "memory")


def test_torch_missing():
    bare = [sysconfig.get_paths()["stdlib"], sysconfig.get_config_var("DESTSHARED") or ""]
    with Runner(path=bare) as fresh:
        for _ in range(2):
            result = fresh.run(job("return {}"))
            assert result.status is Status.NO_TORCH
            assert "accumlint[torch]" in result.error
        assert fresh.starts == 1


def test_closed_runner_leaves_nothing():
    with Runner() as fresh:
        assert fresh.run(job("return {}")).ok
        home, process = fresh._home, fresh._process
    assert not os.path.exists(home)
    assert process.poll() is not None
