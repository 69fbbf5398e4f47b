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

    ``call`` is the breaker, or anything else to enter. The generator's own code is inside of the call, and its
    consumer's code meanwhile is not.
    """

    def guarded(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with call:
            room = call._room_of_block()
            if not room:
                return (yield from function(*args, **kwargs))
            call._move_to(0)
            return (yield from _in_room(call, room, function(*args, **kwargs)))

    return guarded


def _in_room(call: Any, room: int, generator: Any) -> Generator[Any, Any, Any]:
    """Run a generator each step of which is inside of a call."""
    step, value = generator.send, None
    while True:
        outside = call._move_to(room)
        try:
            value = step(value)
        except StopIteration as stop:
            return stop.value
        finally:
            call._move_to(outside)
        try:
            step, value = generator.send, (yield value)
        except GeneratorExit:
            outside = call._move_to(room)
            try:
                generator.close()
            finally:
                call._move_to(outside)
            raise
        except BaseException as error:
            step, value = generator.throw, error


def guard_async_generator(call: Any, function: Any) -> Any:
    """Make an asynchronous generator function of which each generator is a call, as above."""

    async def guarded(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        async with call:
            room = call._room_of_block()
            if room:
                call._move_to(0)
            generator = function(*args, **kwargs)
            step = generator.__anext__()
            while True:
                try:
                    value = await (_step_in_room(call, room, step) if room else step)
                except StopAsyncIteration:
                    return
                try:
                    step = generator.asend((yield value))
                except GeneratorExit:
                    end = generator.aclose()
                    await (_step_in_room(call, room, end) if room else end)
                    raise
                except BaseException as error:
                    step = generator.athrow(error)

    return guarded


async def _step_in_room(call: Any, room: int, step: Any) -> Any:
    """Await a step of a generator inside of a call."""
    outside = call._move_to(room)
    try:
        return await step
    finally:
        call._move_to(outside)
