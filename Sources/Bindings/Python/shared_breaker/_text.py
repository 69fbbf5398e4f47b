"""Converts text from callers to UTF-8, which the library takes."""

from __future__ import annotations

from ._errors import InvalidName


def exact(text: str, what: str, error: type[ValueError] = ValueError) -> str:
    """Return a text that must not change; raise if it is not a str, or has no UTF-8."""
    if not isinstance(text, str):
        raise TypeError(f"{what} is text, and not {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise error(f"{what} cannot be {text!a}: it has half of a surrogate pair") from None
    return text


def name_of(name: str, what: str = "the name of a breaker") -> str:
    """Check the name of a breaker, or of anything else with the same rules, and return it."""
    return exact(name, what, InvalidName)


def for_people(text: str | None, what: str) -> bytes | None:
    """Return a text for people as UTF-8, in which characters that have none are replaced."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise TypeError(f"{what} is text, and not {text!r}")
    return text.encode(errors="replace")


def called(function: object, what: str) -> None:
    """Raise if something cannot be called."""
    if not callable(function):
        raise TypeError(f"{function!r} cannot be called, so it is not {what}")
