import importlib.util

collect_ignore_glob: list[str] = []

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob.append("test_*.py")
else:
    import torch

    torch.set_num_threads(1)
