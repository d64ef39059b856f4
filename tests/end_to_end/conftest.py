import importlib.util
from collections.abc import Iterator

import pytest

collect_ignore_glob: list[str] = []

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob.append("test_*.py")
else:
    import torch

    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _no_process_group_stays() -> Iterator[None]:
    """A framework makes a process group and keeps it; the next test of this process begins without one."""
    yield
    if collect_ignore_glob:
        return
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
