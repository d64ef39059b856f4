"""What can go wrong with a check. None of these is a verdict: no check that raised says "equivalent"."""

from __future__ import annotations


class HarnessError(Exception):
    """The check could not be made. The message says why and what to do."""


class EqualCountsError(HarnessError):
    """Every microbatch has the same count, so a wrong weighting would pass: the data show nothing."""


class UnsuitableModelError(HarnessError):
    """The model cannot be copied, cast to the wanted dtype, or evaluated twice with the same result."""


class NonFiniteError(HarnessError):
    """The reference itself is NaN or infinite (or zero): there is nothing to compare with."""


class NeverSteppedError(HarnessError):
    """The loop made no optimizer step on the model that it was given."""


class TrainingLoopError(HarnessError):
    """The loop under test raised; the cause is chained."""


class RunawayLoopError(HarnessError):
    """The loop went past its limit of seconds or of backward calls."""


class ControlFailedError(HarnessError):
    """The deliberately wrong window was not caught: on these data the check could not have failed."""


class FactoryError(HarnessError):
    """The user's factory cannot be loaded, raised, or returned something else than asked for."""


class RanksError(HarnessError):
    """The distributed run failed: a rank died, hung, or the process group could not be made."""
