#!/usr/bin/env python3
"""A process that makes calls under a limit, from threads and from tasks, with the Python package.

It takes the words of LimitWorker.swift: either ``worker WITNESS STORE NAME SEED HABIT...``, or
``caller WITNESS STORE CALL PRIORITY thread|task``.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import re
import signal
import socket
import sys
import threading
import time
import warnings

from shared_breaker import Rejected, SharedStore

# That threads and forks go together is what is played here.
warnings.simplefilter("ignore", DeprecationWarning)

ALL = 1_000


class Failed(Exception):
    """The error that the work of a call raises."""


class Testimony:
    """One call, as it speaks to the witness on a connection of its own."""

    def __init__(self, name, path):
        self.name = name
        self._has_begun = False
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)

    def tell(self, line):
        """Tell the witness a line, and wait until it was heard; return whether to go on."""
        try:
            self._socket.sendall(line.encode() + b"\n")
            return self._socket.recv(1) == b"+"
        except OSError:
            return False

    def want(self, units, background, retry=False):
        priority = "background" if background else "ordinary"
        return self.tell(
            f"want {self.name} {units} {priority} {time.monotonic_ns()}{' retry' if retry else ''}")

    def hold(self):
        self._has_begun = True
        self.tell(f"hold {self.name}")

    def leave(self):
        self.tell(f"left {self.name}")

    def end(self, answer):
        """Say that nothing of the call is left; one that has begun has run, whatever it was told."""
        self.tell(f"ended {self.name} {'ran' if self._has_begun else answer}")

    def complain(self, what):
        self.tell(f"odd {self.name}: {what}".replace("\n", " "))

    def close(self):
        self._socket.close()


def answer(error):
    # A queue that is full is held too, and in a ramp.
    if isinstance(error, Rejected) and error.cause != "open":
        return "busy"
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    return re.sub(r"\s+", "_", f"{type(error).__name__} {error}")


class Call:
    """The properties that are drawn for one call."""

    def __init__(self, draw):
        self.units = draw.choice([1, 1, 1, 2, 2, 3])
        self.background = draw.randrange(4) == 0
        self.time = draw.uniform(0, 0.06 if draw.randrange(40) == 0 else 0.005)
        self.way = draw.randrange(5)
        self.fails = draw.randrange(3) == 0
        self.patience = draw.uniform(0, 0.04) if draw.randrange(3) == 0 else None


class Worker:
    def __init__(self, words):
        self.witness, self.path, self.life, self.seed = words[0], words[1], words[2], int(words[3])
        self.habits = set(words[4:])
        self.store, self.breaker = open_breaker(self.path)
        # Its next value is one step, whatever other threads do.
        self._numbers = itertools.count(1)

    def run(self):
        if last := life_before(self.life):
            testimony = self.testimony(self.life)
            testimony.tell(f"dead {last}")
            testimony.close()
        draw = random.Random(self.seed)
        threads = [
            threading.Thread(target=self.call_in_thread, args=(number,))
            for number in range(draw.randrange(3))]
        for thread in threads:
            thread.start()
        asyncio.run(self.call_in_tasks(draw.randint(1, 4)))
        for thread in threads:
            thread.join()
        self.store.close()

    def testimony(self, life):
        return Testimony(f"{life}.{next(self._numbers)}", self.witness)

    # Threads

    def call_in_thread(self, number):
        draw = random.Random(self.seed + number)
        while self.call(draw, self.life, number == 0):
            pass

    def call(self, draw, life, is_first=False, is_child=False):
        """Make a call; return whether to go on. The child of a fork neither forks nor executes."""
        call = Call(draw)
        testimony = self.testimony(life)
        retry = "retry" in self.habits and draw.randrange(2) == 0
        if not testimony.want(call.units, call.background, retry):
            testimony.close()
            return False
        forks = not is_child and "fork" in self.habits and draw.randrange(20) == 0
        executes = is_first and "exec" in self.habits and draw.randrange(60) == 0
        claimant = self.breaker.claiming(units=call.units, background=call.background, retry=retry)
        child = None

        def work():
            nonlocal child
            testimony.hold()
            try:
                if executes:
                    self.become_another(testimony)
                if forks:
                    child = self.fork(draw)
                if "nest" in self.habits and call.way != 3:
                    with self.breaker:
                        pass
                time.sleep(call.time)
                if call.fails:
                    raise Failed
            finally:
                testimony.leave()

        try:
            self.enter(claimant, call.way, work)
        except Exception as error:
            if testimony._has_begun and not isinstance(error, Failed):
                testimony.complain(answer(error))
            what = answer(error)
        else:
            what = "nothing"
        if child is not None and os.waitpid(child, 0)[1] != 0:
            testimony.complain("the child of a fork has failed")
        testimony.end(what)
        testimony.close()
        return True

    @staticmethod
    def enter(claimant, way, work):
        if way == 0:
            with claimant:
                work()
        elif way == 1:
            claimant(work)()
        elif way == 2:
            @claimant
            def generate():
                work()
                yield

            for _ in generate():
                pass
        elif way == 3:
            # A permit surrounds nothing; this one is dropped if the work fails.
            permit = claimant.acquire()
            work()
            permit.report()
        else:
            claimant.call(work)

    def fork(self, draw):
        """Fork a child that makes some calls of its own, in the midst of a call; return its pid."""
        life, seed = f"{self.life}/{next(self._numbers)}", draw.random()
        child = os.fork()
        if child != 0:
            return child
        try:
            signal.alarm(600)
            draw = random.Random(seed)
            for _ in range(draw.randint(1, 6)):
                if not self.call(draw, life, is_child=True):
                    break
            os._exit(0)
        finally:
            os._exit(1)

    def become_another(self, testimony):
        """Run this program again in the same process, in the midst of its calls."""
        if testimony.tell(f"replaced {self.life}"):
            os.execv(sys.executable, [
                sys.executable, __file__, "limit-worker", self.witness, self.path,
                life_after(self.life), str(self.seed + 1_000), *sorted(self.habits)])

    # Tasks

    async def call_in_tasks(self, count):
        await asyncio.gather(*(self.go_on(number) for number in range(count)))

    async def go_on(self, number):
        draw = random.Random(self.seed + 100 + number)
        while await self.call_in_task(draw):
            pass

    async def call_in_task(self, draw):
        """Make a call from a task of its own; return whether to go on."""
        call = Call(draw)
        testimony = self.testimony(self.life)
        retry = "retry" in self.habits and draw.randrange(2) == 0
        if not testimony.want(call.units, call.background, retry):
            testimony.close()
            return False
        claimant = self.breaker.claiming(units=call.units, background=call.background, retry=retry)

        async def work():
            testimony.hold()
            try:
                if "nest" in self.habits and call.way not in (1, 3):
                    async with self.breaker:
                        pass
                await asyncio.sleep(call.time)
                if call.fails:
                    raise Failed
            finally:
                testimony.leave()

        task = asyncio.ensure_future(self.enter_async(claimant, call.way, work))
        if call.patience is not None and "cancel" in self.habits:
            await asyncio.wait([task], timeout=call.patience)
            task.cancel()
        (error,) = await asyncio.gather(task, return_exceptions=True)
        if testimony._has_begun and error is not None:
            if not isinstance(error, (Failed, asyncio.CancelledError)):
                testimony.complain(answer(error))
        testimony.end("nothing" if error is None else answer(error))
        testimony.close()
        return True

    @staticmethod
    async def enter_async(claimant, way, work):
        if way in (0, 4):
            async with claimant:
                await work()
        elif way == 2:
            await claimant(work)()
        else:
            permit = await claimant.acquire_async()
            await work()
            await permit.report_async()


def life_after(life):
    """Return the name of what a process runs next, after its first program or a later one."""
    process, _, number = life.partition("x")
    return f"{process}x{int(number or 0) + 1}"


def life_before(life):
    """Return the name of what a process has run before; None if this is its first program."""
    process, _, number = life.partition("x")
    if not number:
        return None
    return process if number == "1" else f"{process}x{int(number) - 1}"


def open_breaker(path):
    """Open the breaker, which the phase has declared.

    A process that cannot use the store keeps to the limit alone, so a worker never gives up on it.
    """
    store = SharedStore(path, on_store_failure="raise", lock_timeout=600)
    return store, store.breaker("api")


def wait_in_line(words):
    """Make one call, which takes all that it may."""
    witness, path, call, priority, kind = words
    store, breaker = open_breaker(path)
    claimant = breaker.claiming(units=ALL, background=priority == "background")
    testimony = Testimony(call, witness)

    async def work():
        async with claimant:
            testimony.hold()
            testimony.leave()

    if kind == "task":
        asyncio.run(work())
    else:
        with claimant:
            testimony.hold()
            testimony.leave()
    testimony.end("nothing")
    store.close()


if __name__ == "__main__":
    if sys.argv[1] == "limit-caller":
        wait_in_line(sys.argv[2:])
    else:
        Worker(sys.argv[2:]).run()
