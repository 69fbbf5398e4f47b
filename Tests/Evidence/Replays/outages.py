"""Plays a service that fails, or is slow, for a while, and processes that call it 1,000 times a second.

The scenarios are the nine that Semian publishes (https://github.com/Shopify/semian, experiments), with their services
and phases. There, 60 threads have a breaker each, which opens after a number of errors within 20 s. Here 1 % of the
calls fail while all is well, and 60 processes have

- no breaker,
- each its own: SharedBreaker with a store for each process, open after 12 failures in a row,
- interlock: the breaker of interlock-cb, in the memory of each process, as it is but for how long it is open: after half
  of at least 10 calls; left out where it is not installed,
- one for all: SharedBreaker as it is meant, after 12 failures in a row, once open for as long as the others, and once
  for a second at a time.

Where one of ten services is slow, each breaker of SharedBreaker also has a limit of 6 calls at a time, which only one
for all makes use of.

A request waits for a free process, and is dropped after a second; it takes one of ten endpoints, each with a time of
its own, and fails after 30 % of it. The processes are real ones; the service and the time are played. Time moves from
one event to the next, on the package's clock for tests, so no figure depends on how fast the machine is.
"""

from __future__ import annotations

import argparse
import collections
import heapq
import importlib.util
import logging
import math
import os
import random
import statistics

import picture
from figures import Figures
from scene import Scene
from shared_breaker import Rejected, SharedStore
from shared_breaker.testing import Clock

SECOND = 1_000_000_000
PATIENCE = SECOND
TIMEOUT = 10
MOST_FAILURES = 12
OPEN_FOR = 15
WELL = 0.01


class Scenario:
    """Phases of so many seconds, each with what is wrong in it: a rate of errors, or time that is added."""

    def __init__(self, length, *phases, services=1, limit=None):
        self.length, self.services, self.limit = length, services, limit
        self.phases = [phase for phase, count in phases for _ in range(count)]
        bad = [number for number, phase in enumerate(self.phases) if phase != WELL]
        self.end = len(self.phases) * length
        self.bad = bad[0] * length, (bad[-1] + 1) * length

    def phase(self, second):
        return self.phases[second // self.length]


SCENARIOS = {
    "blackout": Scenario(20, (WELL, 3), (1, 1), (WELL, 3)),
    "spike": Scenario(20, (WELL, 3), (0.2, 1), (WELL, 3)),
    "sustained": Scenario(30, (WELL, 4), (0.2, 10), (WELL, 4)),
    "spikes": Scenario(20, (WELL, 3), (0.2, 1), (WELL, 3), (0.6, 1), (WELL, 3), (1, 1), (WELL, 3)),
    "gradual": Scenario(60, (WELL, 1), *((rate / 200, 1) for rate in range(3, 11)), (WELL, 1)),
    "oscillating": Scenario(10, (WELL, 2), *(((0.02, 1), (0.06, 1)) * 9), (WELL, 2)),
    "near": Scenario(30, (WELL, 1), (0.012, 4), (WELL, 1)),
    "slow-service": Scenario(30, (WELL, 1), ("all", 10), (WELL, 3), services=10, limit=6),
    "slow-query": Scenario(30, (WELL, 1), ("one", 10), (WELL, 3), services=10, limit=6),
}
ADDED = {"all": 9.95, "one": 9.5}


# The breakers of one process: each has begin(service), which returns a permit or None, and end(permit, is_well).


class Shared:
    """Breakers of SharedBreaker, in one store for all processes, or in one for each."""

    def __init__(self, scene, who, scenario, open_for):
        path = os.path.join(scene.directory, f"breakers{who}.db")
        policy = dict(max_failures=MOST_FAILURES, open_for=open_for, successes_to_close=2)
        if scenario.limit:
            policy.update(max_concurrent=scenario.limit)
        self._store = SharedStore(path, lock_timeout=600, clock=Clock(scene.clock_path))
        self._breakers = [self._store.breaker(f"service {number}", **policy) for number in range(scenario.services)]

    def begin(self, service):
        try:
            return self._breakers[service].acquire()
        except Rejected:
            return None

    def end(self, permit, is_well):
        if is_well:
            permit.report()
        else:
            permit.report("failure")


class Interlock:
    """Breakers of interlock-cb in the memory of a process."""

    def __init__(self, scene, who, scenario, open_for):
        from interlock import CircuitBreaker, Config

        clock = Clock(scene.clock_path)
        clock.monotonic = clock.now
        config = Config(wait_duration_in_open=open_for, permitted_calls_in_half_open=2)
        self._breakers = [
            CircuitBreaker(name=f"service {number}", config=config, clock=clock) for number in range(scenario.services)]

    def begin(self, service):
        from interlock import CircuitOpenError

        try:
            self._breakers[service].__enter__()
        except CircuitOpenError:
            return None
        return self._breakers[service]

    def end(self, breaker, is_well):
        error = None if is_well else ConnectionError()
        breaker.__exit__(error and type(error), error, None)


# The breakers that each process has, how long they stay open, and whether they are those of all.
KINDS = {
    "no breaker": None,
    "each its own": (Shared, OPEN_FOR, False),
    "each its own, 1 s": (Shared, 1, False),
    "interlock": (Interlock, OPEN_FOR, False),
    "one for all": (Shared, OPEN_FOR, True),
    "one for all, 1 s": (Shared, 1, True),
}


def process(commands, scene, who, name, kind):
    """Be a process: report the request before, if there is one, and begin another one, if there is one."""
    # Nothing is printed when a breaker opens.
    logging.disable()
    scenario, (breakers, open_for, is_shared) = SCENARIOS[name], KINDS[kind]
    own = breakers(scene, "" if is_shared else who, scenario, open_for)
    permit = None
    commands.send("ready")
    while True:
        is_well, service = commands.recv()
        if permit is not None and is_well is not None:
            own.end(permit, is_well)
            permit = None
        if service is not None:
            permit = own.begin(service)
        commands.send(permit is not None)


class Services:
    """The services, of which the first has what is wrong in a phase."""

    def __init__(self, scenario, draw):
        self._scenario, self._draw = scenario, draw
        # A mean of 0.15 s, a deviation of 3 s, and what lies outside of 0.1 to 10 s at its ends.
        spread = math.log(1 + (3 / 0.15) ** 2)
        middle = math.log(0.15) - spread / 2
        self._times = [
            [min(10, max(0.1, draw.lognormvariate(middle, math.sqrt(spread)))) for _ in range(10)]
            for _ in range(scenario.services)]

    def ask(self, service, second):
        """Return how long a request takes that begins now, and whether it is answered well."""
        endpoint = self._draw.randrange(10)
        time = self._times[service][endpoint]
        phase = self._scenario.phase(second) if service == 0 else WELL
        if phase == "all" or phase == "one" and endpoint == 0:
            time += ADDED[phase]
        rate = phase if isinstance(phase, float | int) else WELL
        if self._draw.random() < rate:
            return time * 0.3, False
        return min(time, TIMEOUT), time <= TIMEOUT


class Course:
    """The requests of each second, by how they ended."""

    def __init__(self, seconds):
        self.served, self.failed, self.rejected, self.dropped = ([0] * (seconds + 1) for _ in range(4))
        self.begun_after = 0
        """How many calls began in the bad time once one had been turned away in it."""


def play(name, kind, processes, rate, seed):
    """Play a scenario, and return its course."""
    scenario, draw = SCENARIOS[name], random.Random(seed)
    services = Services(scenario, draw)
    course = Course(scenario.end)
    with Scene() as scene:
        workers = kind != "no breaker" and [scene.start(process, scene, who, name, kind) for who in range(processes)]
        for worker in workers or ():
            worker.answer()
        now, number, arrivals = 0, 0, collections.deque()
        free, ends = collections.deque(range(processes)), []

        def begin(who, was_well=None):
            """Let a process report its last request, and take the next that waits, if it is free for one."""
            while arrivals:
                arrivals.popleft()
                service = draw.randrange(scenario.services)
                if workers and not workers[who].do((was_well, service)):
                    course.rejected[second] += 1
                    was_well = None
                    continue
                if scenario.bad[0] <= second < scenario.bad[1] and any(course.rejected[slice(*scenario.bad)]):
                    course.begun_after += 1
                takes, is_well = services.ask(service, second)
                heapq.heappush(ends, (now + max(1, round(takes * SECOND)), who, is_well))
                return
            if workers and was_well is not None:
                workers[who].do((was_well, None))
            free.append(who)

        while True:
            arrival = number * SECOND // rate
            event = min(arrival, ends[0][0]) if ends else arrival
            if event >= scenario.end * SECOND:
                return course
            scene.clock.advance((event - now) / SECOND)
            now, second = event, event // SECOND
            while arrivals and now - arrivals[0] > PATIENCE:
                arrivals.popleft()
                course.dropped[second] += 1
            while ends and ends[0][0] == now:
                _, who, is_well = heapq.heappop(ends)
                (course.served if is_well else course.failed)[second] += 1
                begin(who, is_well)
            if now == arrival:
                number += 1
                arrivals.append(now)
                if free:
                    begin(free.popleft())


def figures_of(scenario, course):
    """Return calls turned away before, errors, served and dropped in, and served in the 20 s after the bad time."""
    begin, end = scenario.bad
    return (
        sum(course.rejected[:begin]), sum(course.failed[begin:end]), sum(course.served[begin:end]),
        sum(course.dropped[begin:end]), sum(course.served[end:end + 20]))


def in_words(values):
    """Return the median of some runs, and their extremes."""
    middle, least, most = statistics.median(values), min(values), max(values)
    return f"{middle:g}" if least == most else f"{middle:g} ({least:g} to {most:g})"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--scenario", choices=[*SCENARIOS, "all"], action="append", help="blackout by default; can be repeated")
    parser.add_argument("--kind", choices=KINDS, action="append", help="play only this kind; can be repeated")
    parser.add_argument("--processes", type=int, default=60)
    parser.add_argument("--rate", type=int, default=1_000, help="requests that come in each second")
    parser.add_argument("--runs", type=int, default=1, help="play each kind so often, each time with other endpoints")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--picture", metavar="FILE", help="draw the first run of each kind as a picture (SVG)")
    options = parser.parse_args()
    kinds = options.kind or list(KINDS)
    if "interlock" in kinds and not importlib.util.find_spec("interlock"):
        kinds.remove("interlock")
        print("left out: interlock, because interlock-cb is not installed\n")
    scenarios = list(SCENARIOS) if "all" in (options.scenario or ()) else options.scenario or ["blackout"]
    if options.picture and len(scenarios) > 1:
        parser.error("--picture draws one scenario: give one --scenario")
    figures = Figures(f"{options.processes} processes, {options.rate} requests a second, {options.runs} runs")
    for name in scenarios:
        scenario, panels = SCENARIOS[name], []
        rows = [(name, "turned away before", "errors", "served", "dropped", "served in the 20 s after")]
        for kind in kinds:
            courses = [
                play(name, kind, options.processes, options.rate, options.seed + run) for run in range(options.runs)]
            all_figures = [figures_of(scenario, course) for course in courses]
            rows.append((kind, *(in_words(values) for values in zip(*all_figures))))
            panels.append((kind, courses[0]))
            if kind.startswith("one for all"):
                check(figures, name, kind, courses)
        figures.table(*rows)
        if options.picture:
            picture.draw(options.picture, scenario, panels)
    figures.end()


def check(figures, name, kind, courses):
    """Claim what holds whichever endpoints were drawn."""
    scenario = SCENARIOS[name]
    begin, end = scenario.bad
    for course in courses:
        if not scenario.limit:
            before = sum(course.rejected[:begin])
            figures.claim(f"{name}, {kind}: none is turned away before", before, expected=0)
        if name == "blackout":
            probes = (end - begin) // KINDS[kind][1]
            figures.claim(
                f"{name}, {kind}: once one was turned away, only {probes} probes began",
                any(course.rejected[begin:end]) and course.begun_after <= probes)


if __name__ == "__main__":
    main()
