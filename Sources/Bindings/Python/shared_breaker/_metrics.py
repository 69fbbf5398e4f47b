"""The metrics of a store, with the names and labels that ``cbctl metrics`` has."""

from __future__ import annotations

import os
import re
import time

from . import _extension
from ._errors import StoreError
from ._shared_store import SharedStore
from ._text import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Literal, NamedTuple

    Labels = dict[str, str]
    Samples = list[tuple[Labels, float]]
    Snapshot = dict[str, Any]
    Stores = SharedStore | Mapping[str, SharedStore]

    class Family(NamedTuple):
        """All samples of one metric, whose name has no prefix yet.

        The samples of a histogram are its counts, each with the label ``le`` and with those of the
        bucket before, and its sum, without that label.
        """

        kind: Literal["gauge", "counter", "histogram"]
        name: str
        help: str
        samples: Callable[[Any], Samples]
else:
    from collections import namedtuple

    Family = namedtuple("Family", "kind name help samples")

STATES = ("closed", "open", "half_open")
MODES = ("automatic", "forced_open", "forced_closed", "observe")
_OUTCOMES = {"success": "successes", "failure": "failures", "ignored": "ignored"}


class Figures:
    """The findings of one look at a store. A store that cannot be read has no breakers."""

    def __init__(self, store: SharedStore, prefix: str | None, limit: int) -> None:
        """Read a store. It is never created."""
        self.breakers: list[Snapshot] = []
        self.count: int | None = None
        self.is_up: bool | None = False
        self.now = time.time()
        health = store.health
        self.is_alone = health not in ("available", "untried")
        try:
            # Not ``connect(existing=True)``, after which the process's calls would not create it either.
            os.stat(store.path)
            found = store.snapshots()
        except FileNotFoundError:
            # It is not known yet whether the first call can create the file.
            if health == "untried":
                self.is_up = None
            return
        except (OSError, StoreError):
            return
        self.is_up = True
        self.count = len(found)
        wanted = [breaker for breaker in found if breaker["name"].startswith(prefix or "")]
        self.left_out = max(0, len(wanted) - limit)
        self.breakers = wanted[:limit]
        self.sizes = _sizes(store.path)


class Source:
    """The stores of a collector, by the values of their label ``store`` if there are several."""

    def __init__(self, stores: Stores | None, prefix: str | None, limit: int) -> None:
        if prefix is not None:
            name_of(prefix)
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ValueError(f"limit cannot be {limit!r}: give a whole number of at least 1")
        if stores is None:
            from . import default_store

            stores = default_store()
        named = {"": stores} if isinstance(stores, SharedStore) else dict(stores)
        for store in named.values():
            if not isinstance(store, SharedStore):
                raise TypeError(f"{store!r} is not a SharedStore")
        self.stores = named
        self._prefix = prefix
        self._limit = limit

    def read(self) -> list[tuple[Labels, Figures]]:
        """Look at each store; the labels are what its samples have in addition."""
        return [
            ({"store": name} if name else {}, Figures(store, self._prefix, self._limit))
            for name, store in self.stores.items()]


def samples_of(family: Family, read: list[tuple[Labels, Figures]]) -> Samples:
    """Return all samples of a family."""
    is_of_store = family in STORE_FAMILIES
    return [
        (more | labels, value)
        for more, figures in read
        for subject in ([figures] if is_of_store else figures.breakers)
        for labels, value in family.samples(subject)]


def _sizes(path: str) -> Samples:
    sizes: Samples = []
    for file, suffix in (
            ("database", ""), ("log", "-wal"), ("counters", "-counters"), ("slots", "-slots")):
        try:
            sizes.append(({"file": file}, float(os.stat(path + suffix).st_size)))
        except OSError:
            continue
    return sizes


def _named(breaker: Snapshot, value: float) -> Samples:
    return [({"name": visible(breaker["name"])}, float(value))]


def _each(breaker: Snapshot, label: str, values: dict[str, float]) -> Samples:
    name = visible(breaker["name"])
    return [({"name": name, label: key}, float(value)) for key, value in values.items()]


def _since_epoch(breaker: Snapshot) -> Samples:
    from datetime import datetime

    at = breaker["changed_at"] or breaker["created_at"]
    return _named(breaker, datetime.fromisoformat(at).timestamp()) if at else []


def _mode_set(breaker: Snapshot) -> Samples:
    from datetime import datetime

    at = breaker["mode_set_at"]
    if not at:
        return []
    author = visible(breaker["mode_set_by"] or "")
    labels = {"name": visible(breaker["name"]), "mode": breaker["mode"], "set_by": author}
    return [(labels, datetime.fromisoformat(at).timestamp())]


def _held(breaker: Snapshot, value: float) -> Samples:
    """Return a figure of holds; nothing if the resource has never asked to be left alone."""
    totals = breaker["totals"]
    return _named(breaker, value) if breaker["hold"] or totals["holds"] or totals["held"] else []


def _ramp(breaker: Snapshot, value: float) -> Samples:
    """Return a figure of ramps; nothing if the policy has none, and never turned a call away in one."""
    has = breaker["policy"]["ramp-up"] or breaker["totals"]["ramping"]
    return _named(breaker, value) if has else []


def _rate(breaker: Snapshot, key: str, scale: float = 1) -> Samples:
    """Return a figure of the rate; nothing if the policy has none, or if it is not known."""
    rate = breaker["rate"]
    return _named(breaker, rate[key] * scale) if rate and rate[key] is not None else []


def _over_rate(breaker: Snapshot) -> Samples:
    total = breaker["totals"]["over_rate"]
    return _named(breaker, total) if breaker["rate"] or total else []


def _retries(breaker: Snapshot, key: str) -> Samples:
    total = breaker["totals"][key]
    return _named(breaker, total) if breaker["retries"] or total else []


def _hold_since(breaker: Snapshot) -> Samples:
    from datetime import datetime

    hold = breaker["hold"]
    return _named(breaker, datetime.fromisoformat(hold["since"]).timestamp()) if hold else []


def _state_seconds(breaker: Snapshot) -> Samples:
    # Not the last second of the present state: a change that is being written now ends it earlier.
    times = dict(breaker["time_in_state_ms"])
    times[breaker["state"]] -= min(breaker["in_state_ms"], 1_000)
    return _each(breaker, "state", {state: time / 1_000 for state, time in times.items()})


def _mode_remaining(breaker: Snapshot) -> Samples:
    left = breaker["mode_ends_in_ms"]
    return [] if left is None else _named(breaker, left / 1_000)


def _limit(breaker: Snapshot, key: str) -> Samples:
    """Return a figure of the limit; nothing if there is none, or if the figure is unknown."""
    value = (breaker["limit"] or {}).get(key)
    return [] if value is None else _named(breaker, value)


def _limit_total(breaker: Snapshot, total: str) -> Samples:
    count = breaker["totals"][total]
    return _named(breaker, count) if breaker["limit"] or count else []


def _waits(breaker: Snapshot) -> dict[str, Any]:
    return (breaker["limit"] or {}).get("waits") or {}


def _wait_seconds(breaker: Snapshot) -> Samples:
    waits = _waits(breaker)
    if not waits:
        return []
    samples: Samples = []
    count = 0
    for bucket in waits["buckets"]:
        count += bucket["count"]
        bound = bucket["at_most_ms"]
        # As cbctl writes it.
        label = "+Inf" if bound is None else f"{bound / 1_000:g}"
        samples.append(({"name": visible(breaker["name"]), "le": label}, float(count)))
    return samples + _named(breaker, waits["total_ms"] / 1_000)


STORE_FAMILIES = [
    Family(
        "gauge", "build_info", "Always 1; the versions of this package and of SQLite.",
        lambda store: [
            ({"version": _extension.version(), "sqlite": _extension.sqlite_version()}, 1.0)]),
    Family(
        "gauge", "collected_timestamp_seconds", "When these metrics were collected.",
        lambda store: [({}, store.now)]),
    Family(
        "gauge", "store_up", "Whether the store could be read.",
        lambda store: [] if store.is_up is None else [({}, float(store.is_up))]),
    Family(
        "gauge", "store_size_bytes", "The size of each file of the store.",
        lambda store: [] if store.count is None else store.sizes),
    Family(
        "gauge", "store_breakers", "How many breakers the store has.",
        lambda store: [] if store.count is None else [({}, float(store.count))]),
    Family(
        "gauge", "store_breakers_left_out",
        "How many of the requested breakers the limit has left out.",
        lambda store: [] if store.count is None else [({}, float(store.left_out))]),
    Family(
        "gauge", "process_alone",
        "Whether this process cannot use the store, so that its breakers are its own.",
        lambda store: [({}, float(store.is_alone))]),
]

BREAKER_FAMILIES = [
    Family(
        "gauge", "state", "Whether the breaker is in this state.",
        lambda one: _each(one, "state", {state: one["state"] == state for state in STATES})),
    Family(
        "gauge", "mode", "Whether the breaker has this mode.",
        lambda one: _each(one, "mode", {mode: one["mode"] == mode for mode in MODES})),
    Family(
        "gauge", "mode_remaining_seconds",
        "How long the mode will hold; left out if it has no end.", _mode_remaining),
    Family(
        "gauge", "mode_set_timestamp_seconds",
        "When the mode was set, and by whom; left out if it is automatic.", _mode_set),
    Family(
        "gauge", "permitted", "Whether the breaker would permit a call now.",
        lambda one: _named(one, one["permitted"])),
    Family(
        "gauge", "probes_in_flight", "Probes that are under way.",
        lambda one: _named(one, one["probes_in_flight"])),
    Family(
        "gauge", "consecutive_failures", "Failures with no success between them.",
        lambda one: _named(one, one["consecutive_failures"])),
    Family(
        "gauge", "flapping",
        "Whether the breaker flaps: 5 or more outages in the last hour.",
        lambda one: _named(one, one["flapping"])),
    Family(
        "gauge", "last_transition_timestamp_seconds",
        "When the state last changed, or when the breaker was created if it never did.",
        _since_epoch),
    Family(
        "counter", "transitions_total", "How often the breaker entered this state from another one.",
        lambda one: _each(one, "to", one["transitions"])),
    Family(
        "counter", "state_seconds_total", "How long the breaker has been in this state.",
        _state_seconds),
    Family(
        "counter", "calls_total", "Calls that were permitted, by outcome.",
        lambda one: _each(
            one, "outcome", {key: one["totals"][total] for key, total in _OUTCOMES.items()})),
    Family(
        "counter", "slow_calls_total", "Calls that took at least slow-after.",
        lambda one: _named(one, one["totals"]["slow"])),
    Family(
        "counter", "rejections_total", "Calls that were rejected.",
        lambda one: _named(one, one["totals"]["rejections"])),
    Family(
        "counter", "observed_rejections_total", "Calls that only the mode observe let through.",
        lambda one: _named(one, one["totals"]["would_reject"])),
    Family(
        "gauge", "limit_units", "How many units of work max-concurrent permits to be under way.",
        lambda one: _limit(one, "units")),
    Family(
        "gauge", "units_in_use", "How many units of work are under way; left out if nobody knows.",
        lambda one: _limit(one, "in_use")),
    Family(
        "gauge", "callers_waiting", "How many callers wait for room; left out if nobody knows.",
        lambda one: _limit(one, "waiting")),
    Family(
        "histogram", "wait_seconds",
        "How long callers have waited for room that have had their turn.", _wait_seconds),
    Family(
        "counter", "abandoned_waits_total",
        "Callers that have waited for room and left without it.",
        lambda one: _named(one, _waits(one)["abandoned"]) if _waits(one) else []),
    Family(
        "counter", "busy_rejections_total",
        "Calls that were rejected because there was no room.",
        lambda one: _limit_total(one, "busy")),
    Family(
        "counter", "lost_calls_total",
        "Calls that were under way when their process ended.",
        lambda one: _limit_total(one, "lost_calls")),
    Family(
        "gauge", "hold_seconds", "How much longer calls are held; 0 if they are not.",
        lambda one: _held(one, (one["hold"] or {"ends_in_ms": 0})["ends_in_ms"] / 1_000)),
    Family(
        "gauge", "hold_since_timestamp_seconds", "When the hold began; left out if there is none.", _hold_since),
    Family(
        "counter", "holds_total", "Calls whose outcome asked to leave the resource alone.",
        lambda one: _held(one, one["totals"]["holds"])),
    Family(
        "counter", "held_rejections_total", "Calls that a hold turned away.",
        lambda one: _held(one, one["totals"]["held"])),
    Family(
        "gauge", "ramp_seconds", "How much longer few calls go at once, after a close or a hold.",
        lambda one: _ramp(one, (one["ramp"] or {"ends_in_ms": 0})["ends_in_ms"] / 1_000)),
    Family(
        "counter", "ramping_rejections_total", "Calls that a ramp turned away.",
        lambda one: _ramp(one, one["totals"]["ramping"])),
    Family(
        "gauge", "rate_calls", "How many calls rate permits to begin in its interval.",
        lambda one: _rate(one, "calls")),
    Family(
        "gauge", "rate_interval_seconds", "The interval of rate.", lambda one: _rate(one, "interval_ms", 1 / 1_000)),
    Family(
        "gauge", "rate_begun_calls", "Calls that have begun in the interval that ends now.",
        lambda one: _rate(one, "begun")),
    Family(
        "counter", "rate_rejections_total", "Calls that rate turned away.", _over_rate),
    Family(
        "counter", "retries_total", "Calls that were sent again under retry-budget.",
        lambda one: _retries(one, "retries")),
    Family(
        "counter", "refused_retries_total", "Calls that retry-budget did not permit to send again.",
        lambda one: _retries(one, "over_budget")),
]

# Characters that control a terminal, end a line, change the writing direction, or are invisible.
_MISLEADING = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]")
# They join a visible character that is not ASCII to the next one, or choose its form.
_JOINING = re.compile("[\u200c\u200d\ufe00-\ufe0f]")


def visible(name: str) -> str:
    """Return the name of a breaker as a label has it: different names stay different."""
    if name.isascii() and name.isprintable() and "\\u{" not in name:
        return name
    shown, can_be_joined = [], False
    for character in name.replace("\\u{", "\\u{5c}u{"):
        misleads = _MISLEADING.match(character) is not None
        is_kept = not misleads or (can_be_joined and _JOINING.match(character))
        shown.append(character if is_kept else f"\\u{{{ord(character):x}}}")
        can_be_joined = not misleads and not character.isascii()
    return "".join(shown)
