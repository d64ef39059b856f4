"""A time limit for code that runs in this thread, also for a loop that calls nothing of torch."""

from __future__ import annotations

import ctypes
import threading
from types import TracebackType

from accumlint.harness.errors import RunawayLoopError


class TimeUpError(BaseException):
    """Raised inside of the limited code; no `except Exception` of its own catches it."""


class Deadline:
    """A context manager: RunawayLoopError if what is inside takes more than `seconds` (None: no limit).

    The exception is delivered between two instructions of Python, so one long call into C delays it.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._is_over = self._has_fired = False
        self._timer: threading.Timer | None = None

    def __enter__(self) -> None:
        if self.seconds is not None:
            self._timer = threading.Timer(self.seconds, self._fire)
            self._timer.daemon = True
            self._timer.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._is_over = True
            if self._has_fired and kind is not TimeUpError:
                _raise_in(self._thread, None)  # it is on its way and must not arrive later
        if self._timer is not None:
            self._timer.cancel()
        if self._has_fired:
            raise RunawayLoopError(f"the loop took more than {self.seconds:g} s") from None

    def _fire(self) -> None:
        with self._lock:
            if not self._is_over:
                self._has_fired = True
                _raise_in(self._thread, TimeUpError)


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    target = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), target)
