"""Attach repairs to findings. (Filled by the planner.)"""
from __future__ import annotations
def attach_repairs(source: object, module: object, options: object, report: object) -> None:
    return None
