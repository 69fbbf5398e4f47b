"""The reference in the guides, which is made of the package's own words.

With RECORD_SNAPSHOTS=1 the test writes it again.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import textwrap
import unittest
from pathlib import Path

import shared_breaker

PAGE = Path(__file__).parents[3] / "Sources/Breaker/SharedBreaker/SharedBreaker.docc/PythonReference.md"

BEGINNING = """# Python Reference

Every public name of the package, with its keywords and its errors.

[Using It from Python](UsingItFromPython.md) explains them. Times are seconds or a `timedelta`. The keywords of policies
stand there too, each with its default.
"""

SECTIONS = (
    ("Breakers and stores", "shared_breaker", ("breaker", "default_store", "SharedStore")),
    ("Calls", "shared_breaker", ("Breaker", "Permit")),
    ("Errors", "shared_breaker", ("BreakerError", "Rejected", "Busy", "StoreError", "InvalidPolicy", "InvalidName")),
    ("Answers of HTTP", "shared_breaker", ("retry_after", "too_many_requests")),
    ("Events", "shared_breaker", ("Event",)),
    ("Tests", "shared_breaker.testing", ("Clock", "Host")),
)

# Modules for packages that need not be installed. The guides have their words.
INTEGRATIONS = """
## Modules for other packages

| module | names |
| --- | --- |
| `shared_breaker.httpx`, `shared_breaker.httpx2` | `Transport`, `AsyncTransport`, `Rejected`, `Busy`, `account_of` |
| `shared_breaker.requests` | `Adapter`, `Rejected`, `Busy`, `account_of` |
| `shared_breaker.aiohttp` | `Middleware`, `Rejected`, `Busy`, `account_of` |
| `shared_breaker.prometheus` | `BreakerCollector` |
| `shared_breaker.opentelemetry` | `instrument` |
| `shared_breaker.pytest_plugin` | the fixtures `breaker_host`, `breaker_store`, `breaker_clock` |
| `shared_breaker.pybreaker` | the names of `pybreaker` |

[Python Recipes](PythonRecipes.md) shows each of them.
"""


# Made by others: a breaker by `breaker()`, a permit by `acquire()`, an event and an error by the package.
MADE_BY_OTHERS = {
    "Breaker", "Permit", "Event", "BreakerError", "Rejected", "Busy", "StoreError", "InvalidPolicy", "InvalidName"}


def signature(name, thing):
    """Return how something is called, as it is written in the source."""
    if name in MADE_BY_OTHERS:
        return name
    words = []
    is_by_keyword = False
    for key, parameter in inspect.signature(thing).parameters.items():
        if key == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not is_by_keyword:
            is_by_keyword = True
            words.append("*")
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = parameter.default
        if default is parameter.empty:
            words.append(stars + ("policy" if key == "words" else key))
        else:
            shown = "..." if type(default) is object else f'"{default}"' if isinstance(default, str) else repr(default)
            words.append(f"{key}={shown}")
    return f"{name}({', '.join(words)})"


def words(thing):
    """Return the documentation of something as Markdown."""
    text = (inspect.getdoc(thing) or "").replace("``", "`") + "\n"
    return re.sub(
        r"::\n\n((?:    .*\n|\n)+)",
        lambda found: ":\n\n```python\n" + textwrap.dedent(found[1]).strip() + "\n```\n\n", text).strip()


def members(kind):
    """Return the public members of a class, in the order of the source, those too that it inherits from hidden ones."""
    found = {}
    for base in reversed(kind.__mro__):
        is_listed = base is not kind and base is getattr(shared_breaker, base.__name__, None)
        if base.__module__.startswith("shared_breaker") and not is_listed:
            found.update({name: member for name, member in vars(base).items() if not name.startswith("_")})
    return found


def entry(level, name, thing):
    """Return the entry of a name; None if it has no words."""
    text = words(thing)
    if not text or not (callable(thing) or inspect.isdatadescriptor(thing)):
        return None
    title = signature(name, thing) if callable(thing) else name
    shown = ""
    if len(title) > 80:
        title, shown = f"{name}()", f"```python\n{title}\n```\n\n"
    return f"{'#' * level} `{title}`\n\n{shown}{text}\n"


def page():
    """Return the whole reference."""
    parts = [BEGINNING]
    for title, module, names in SECTIONS:
        parts.append(f"## {title}\n")
        for name in names:
            thing = getattr(importlib.import_module(module), name)
            parts.append(entry(3, name, thing))
            if inspect.isclass(thing):
                parts += [entry(4, name, member) for name, member in members(thing).items()]
    return "\n".join(part for part in parts if part) + INTEGRATIONS


class Reference(unittest.TestCase):
    def test_the_reference_has_the_words_of_the_package(self):
        if os.environ.get("RECORD_SNAPSHOTS"):
            PAGE.write_text(page())
        self.assertEqual(PAGE.read_text(), page(), "run this test with RECORD_SNAPSHOTS=1")

    def test_the_reference_has_every_public_name(self):
        named = {name for _, module, names in SECTIONS if module == "shared_breaker" for name in names}
        self.assertEqual(named, set(shared_breaker.__all__))


if __name__ == "__main__":
    unittest.main()
