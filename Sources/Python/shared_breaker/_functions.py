"""Kinds of functions, and generators that are calls."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator
    from typing import Any

# Flags of code objects; a coroutine may also be a generator that types.coroutine() has made one.
GENERATOR, COROUTINE, ASYNC_GENERATOR = 0x20, 0x80 | 0x100, 0x200


def code_of(function: Any) -> Any:
    """Return the code that a call runs, as ``inspect`` finds it; it takes long to import."""
    functools = sys.modules.get("functools")
    while True:
        if functools is not None and isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__func__"):
            function = function.__func__
        else:
            break
    code = getattr(function, "__code__", None)
    if code is None and not isinstance(function, type):
        code = getattr(getattr(type(function), "__call__", None), "__code__", None)
    return code


def flags_of(function: Any) -> int:
    """Return the flags of a function's code."""
    flags: int = getattr(code_of(function), "co_flags", 0)
    return flags


def resemble_function(guarded: Any, function: Any) -> None:
    """Give what stands for a function that by which ``inspect`` learns that it is a coroutine function."""
    guarded.__name__ = "guarded"  # for a partial function, which has no name
    guarded.__code__ = code_of(function)
    guarded.__defaults__ = guarded.__kwdefaults__ = None


def guard_generator(call: Any, function: Any) -> Any:
    """Make a generator function of which each generator is a call, from its first value to its end.

    ``call`` is the breaker, or anything else to enter.
    """

    def guarded(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with call:
            return (yield from function(*args, **kwargs))

    return guarded


def guard_async_generator(call: Any, function: Any) -> Any:
    """Make an asynchronous generator function of which each generator is a call."""

    async def guarded(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        async with call:
            generator = function(*args, **kwargs)
            step = generator.__anext__()
            while True:
                try:
                    value = await step
                except StopAsyncIteration:
                    return
                try:
                    step = generator.asend((yield value))
                except GeneratorExit:
                    await generator.aclose()
                    raise
                except BaseException as error:
                    step = generator.athrow(error)

    return guarded
