"""Telling exceptions of signal handlers from those of the code that they interrupt.

The interpreter runs a handler wherever the main thread happens to be, so what it raises may come out of any
line of this package, and out of any function that the package calls. Code that goes on after an exception
asks here first, because a handler's exception is for the caller.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_VARIABLE_ARGUMENTS = 0x04


def is_of_signal(error: BaseException) -> bool:
    """Return whether a signal handler has raised an exception.

    A handler is called with the frame that it interrupts, which is the one before it in the traceback.
    """
    signal = sys.modules.get("signal")
    if signal is None:
        return False  # there are no handlers
    calls = [
        (frame, called) for frame, called in _calls(error)
        # A handler takes a number and a frame.
        if called.f_code.co_argcount >= 2 or called.f_code.co_flags & _VARIABLE_ARGUMENTS]
    if not calls:
        return False
    if any(_is_given(called, frame) for frame, called in calls):
        return True
    # A handler may have assigned another value to its argument.
    from ._functions import code_of

    handlers = [signal.getsignal(number) for number in range(1, signal.NSIG)]
    codes = [code_of(handler) for handler in handlers if callable(handler)]
    return any(called.f_code in codes for _, called in calls)


def _calls(error: BaseException) -> Iterator[tuple[FrameType, FrameType]]:
    """Return each frame of a traceback with the one that it has called, from the outermost on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        yield trace.tb_frame, trace.tb_next.tb_frame
        trace = trace.tb_next


def _is_given(called: FrameType, frame: FrameType) -> bool:
    """Return whether a function was called with a frame among its arguments."""
    code = called.f_code
    values = called.f_locals
    if code.co_flags & _VARIABLE_ARGUMENTS:
        more = values.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount])
        if isinstance(more, tuple) and any(value is frame for value in more):
            return True
    return any(values.get(name) is frame for name in code.co_varnames[: code.co_argcount])
