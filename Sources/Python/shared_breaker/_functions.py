"""Kinds of functions, and generators that are calls."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator
    from typing import Any, TypeVar

    from ._permit import Permit

    T = TypeVar("T")

# Flags of code objects.
GENERATOR, COROUTINE, ASYNC_GENERATOR = 0x20, 0x80, 0x200


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


def watch_generator(permit: Permit, generator: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
    """Report on a generator when it ends."""
    try:
        result = yield from generator
    except BaseException as error:
        permit.report(error)
        raise
    permit.report()
    return result


async def watch_async_generator(
    permit: Permit, generator: AsyncGenerator[Any, Any]
) -> AsyncGenerator[Any, Any]:
    """Report on an asynchronous generator when it ends."""
    step: Any = generator.__anext__()
    try:
        while True:
            try:
                value = await step
            except StopAsyncIteration:
                break
            try:
                step = generator.asend((yield value))
            except GeneratorExit:
                await generator.aclose()
                raise
            except BaseException as error:
                step = generator.athrow(error)
    except GeneratorExit:
        permit.report("ignored")
        raise
    except BaseException as error:
        await permit.report_async(error)
        raise
    await permit.report_async()
