"""accumlint finds and repairs wrong gradient accumulation in PyTorch training code, and proves each repair."""

__version__ = "0.1.0"
