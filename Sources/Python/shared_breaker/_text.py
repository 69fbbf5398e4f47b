"""Text from callers, as the library takes it: UTF-8."""

from __future__ import annotations

from ._errors import InvalidName


def exact(text: str, what: str, error: type[ValueError] = ValueError) -> str:
    """Return a text that has to arrive as it is; raise if it is no text, or cannot be written as UTF-8."""
    if not isinstance(text, str):
        raise TypeError(f"{what} is text, and not {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise error(f"{what} cannot be {text!a}: it has half of a surrogate pair") from None
    return text


def name_of(name: str, what: str = "the name of a breaker") -> str:
    """Return the name of a breaker, or of what else the library names in the same way."""
    return exact(name, what, InvalidName)


def for_people(text: str | None, what: str) -> bytes | None:
    """Return a text that people read, in which what UTF-8 cannot hold is replaced."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise TypeError(f"{what} is text, and not {text!r}")
    return text.encode(errors="replace")


def called(function: object, what: str) -> None:
    """Raise if something cannot be called."""
    if not callable(function):
        raise TypeError(f"{function!r} cannot be called, so it is not {what}")
