"""Whether a file may run on several ranks, read off its text: then a local count is never enough."""

from __future__ import annotations

import re
from functools import lru_cache

RANKS = re.compile(
    r"\bDistributedDataParallel\b|\bDDP\b|\bFullyShardedDataParallel\b|\bFSDP\b|\bfully_shard\b|torch\.distributed"
    r"|\bno_sync\b|\bno_backward_sync\b|\bget_world_size\b|\bworld_size\b|\bnum_processes\b|\bdeepspeed\b"
    r"|set_requires_gradient_sync|\bAccelerator\b|\bFabric\b|\baccelerator\.backward\b|\bfabric\.backward\b"
)


@lru_cache(maxsize=4)
def text_has_ranks(text: str) -> bool:
    return RANKS.search(text) is not None
