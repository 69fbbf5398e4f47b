"""Plays agents that share one quota for a while, each a process that always has another request to make.

The provider serves 60 requests a minute, and each takes 2 s. A minute is played in --window seconds, and every other
time is shorter by the same factor. The agents run on the host's clock, so all figures but the claims differ a little
from run to run.

- backoff: each agent tries again by itself, after 1 s that doubles up to 64 s, of which a random half is left out.
- Retry-After: each agent waits by itself for as long as its own answer says, and up to a tenth longer.
- interlock: as backoff, behind the transport of interlock-cb as it is, with one breaker in each process. It is
  left out where the packages interlock-cb and httpx are not installed.
- pyrate: all agents share a limiter of pyrate-limiter over SQLite, with its lock on a file, and wait for it; after a 429,
  as Retry-After. It is left out where the package pyrate-limiter is not installed.
- SharedBreaker: at most 8 requests are under way, and the others wait in a queue, also for the end of a hold.
- with a rate: as SharedBreaker, and 60 requests begin in any minute.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import time

from figures import Figures
from provider import Provider, ask
from scene import Scene
from shared_breaker import Rejected, too_many_requests

QUOTA = 60
MINUTE = 60
LIMIT = 8
WORK = 2


def backing_off(scale, try_once):
    """Make requests for ever, with waits that grow from refusal to refusal.

    ``try_once`` returns whether a request was served, and how long to wait at least if it was not.
    """
    wait = 1
    while True:
        is_served, least = try_once()
        if is_served:
            wait = 1
        else:
            time.sleep(max(least, wait * scale * random.uniform(0.5, 1)))
            wait = min(64, 2 * wait)


def backoff(scene, port, who, scale):
    backing_off(scale, lambda: (ask(port, who).status == 200, 0))


def obedient(scene, port, who, scale):
    while True:
        wait = too_many_requests(ask(port, who))
        if wait is not None:
            time.sleep(wait * random.uniform(1, 1.1))


def interlock(scene, port, who, scale):
    import httpx
    from interlock import Config
    from interlock.integrations.httpx import CircuitBreakerTransport, CircuitOpenTransportError

    config = Config(wait_duration_in_open=MINUTE * scale)
    transport = CircuitBreakerTransport(httpx.HTTPTransport(), config=config)
    client = httpx.Client(transport=transport, timeout=None)

    def try_once():
        try:
            answer = client.post(f"http://127.0.0.1:{port}/v1/answers", headers={"X-Asker": str(who)})
        except CircuitOpenTransportError as error:
            return False, error.retry_after or 0
        return answer.status_code == 200, 0

    backing_off(scale, try_once)


def pyrate(scene, port, who, scale):
    from pyrate_limiter import limiter_factory

    path = os.path.join(scene.directory, "pyrate.db")
    limiter = limiter_factory.create_sqlite_limiter(
        QUOTA, round(MINUTE * scale * 1_000), db_path=path, use_file_lock=True)
    while True:
        limiter.try_acquire("the key")
        wait = too_many_requests(ask(port, who))
        if wait is not None:
            time.sleep(wait * random.uniform(1, 1.1))


def shared(scene, port, who, scale, **policy):
    llm = scene.store().breaker(
        "the key", hold=too_many_requests, max_concurrent=LIMIT, queue_timeout=86_400, **policy)
    guarded = llm(ask)
    while True:
        try:
            guarded(port, who)
        except Rejected as rejected:
            time.sleep(rejected.retry_after or scale)


def rated(scene, port, who, scale):
    shared(scene, port, who, scale, rate=f"{QUOTA}/{round(MINUTE * scale * 1_000)}ms")


KINDS = {
    "backoff": backoff, "Retry-After": obedient, "interlock": interlock, "pyrate": pyrate, "SharedBreaker": shared,
    "with a rate": rated}
NEEDS = {"interlock": ["interlock", "httpx"], "pyrate": ["pyrate_limiter", "filelock"]}


def agent(commands, scene, port, who, scale, kind):
    """Be an agent from the first command on, to the end of the process."""
    random.seed(who)
    commands.send("ready")
    commands.recv()
    KINDS[kind](scene, port, who, scale)


def play(agents, kind, seconds, window):
    """Return the log of the provider."""
    scale = window / MINUTE
    words = ("--quota", QUOTA, "--window", window, "--work", WORK * scale, "--tell", "milliseconds")
    with Provider(*words) as provider, Scene() as scene:
        workers = [scene.start(agent, scene, provider.port, who, scale, kind) for who in range(agents)]
        for worker in workers:
            worker.answer()
        for worker in workers:
            worker.send("begin")
        time.sleep(seconds)
        return provider.log()


def longest_wait(log, agents, end, work):
    """Return the longest time in which an agent got no answer that serves it, in milliseconds."""
    free_since = dict.fromkeys(map(str, range(agents)), 0)
    longest = 0
    for one in log:
        if one["status"] == 200:
            longest = max(longest, one["at"] - free_since[one["who"]])
            free_since[one["who"]] = one["at"] + work
    return max(longest, *(end - since for since in free_since.values()))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60, help="how long each kind plays")
    parser.add_argument("--window", type=float, default=10, help="seconds in which a minute is played")
    parser.add_argument("--kind", choices=KINDS, action="append", help="play only this kind; can be repeated")
    options = parser.parse_args()
    windows = int(options.seconds // options.window)
    if not windows:
        parser.error("--seconds is shorter than --window")
    figures = Figures(
        f"{options.agents} agents, {QUOTA} requests a minute, {windows} minutes; "
        f"a minute is played in {options.window:g} s, and times are told as if it were one")
    rows = [("", "quota used", "429s a minute", "at most", "longest wait of one agent")]
    for kind in options.kind or KINDS:
        missing = [name for name in NEEDS.get(kind, []) if not importlib.util.find_spec(name)]
        if missing:
            print(f"left out: {kind}, because the module {missing[0]} is not installed\n")
            continue
        log = play(options.agents, kind, windows * options.window, options.window)
        log = [one for one in log if one["window"] < windows]
        served = sum(one["status"] == 200 for one in log)
        refused = [sum(one["status"] == 429 and one["window"] == number for one in log) for number in range(windows)]
        end = windows * options.window * 1_000
        wait = longest_wait(log, options.agents, end, WORK / MINUTE * options.window * 1_000)
        rows.append((
            kind, f"{served / windows / QUOTA:.0%}", f"{sum(refused) / windows:.1f}", max(refused),
            f"{wait / 1_000 * MINUTE / options.window:.0f} s"))
        if KINDS[kind] in (shared, rated):
            figures.claim(f"at most {LIMIT} get a 429 in a minute", max(refused) <= LIMIT)
    figures.table(*rows)
    figures.end()


if __name__ == "__main__":
    main()
