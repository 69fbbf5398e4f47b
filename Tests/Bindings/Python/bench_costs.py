"""The cost of calls besides time: memory, system calls, and the silence of an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time

from support import HOLD_THE_STORE
from test_leaks import kept

from shared_breaker import Rejected, SharedStore

BEGIN, END = "/shared-breaker-bench-begins", "/shared-breaker-bench-ends"
LOOKS = ("stat", "lstat", "newfstatat", "statx")

# Sixteen processes as a prefork server makes them, with marks in the trace around their calls.
SIXTEEN = f"""
import os, sys, time
from shared_breaker import SharedStore
shared = SharedStore(sys.argv[1]).breaker("sixteen", max_failures=3)
guarded = shared(int)
guarded()
children = []
for _ in range(16):
    pid = os.fork()
    if pid == 0:
        guarded()
        os.access({BEGIN!r}, os.F_OK)
        for _ in range(500_000):
            with shared:
                pass
            guarded()
        os.access({END!r}, os.F_OK)
        os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
"""


def bytes_kept(payments):
    """Return the bytes that 10,000 healthy calls keep, and those that as many calls of nothing do."""
    guarded = payments(int)

    def work():
        with payments:
            pass
        guarded()

    for _ in range(300):
        work()
    return [min(kept(what, 5_000)[0] for _ in range(3)) for what in (work, int)]


def system_calls(path):
    """Return the system calls of 16,000,000 healthy calls, and how often they looked at the file.

    None without strace.
    """
    if shutil.which("strace") is None:
        return None
    with tempfile.TemporaryDirectory() as directory:
        trace = os.path.join(directory, "trace")
        subprocess.run(
            ["strace", "-f", "-qq", "-o", trace, sys.executable, "-c", SIXTEEN, path], check=True)
        counting, ended, calls, looks = set(), 0, 0, 0
        with open(trace) as lines:
            for line in lines:
                pid, _, call = line.strip().partition(" ")
                name = call.strip().partition("(")[0]
                if BEGIN in call:
                    counting.add(pid)
                elif END in call:
                    counting.remove(pid)
                    ended += 1
                elif pid in counting and name in LOOKS:
                    looks += 1
                elif pid in counting and not name.startswith("<"):
                    calls += 1
    if ended != 16:
        raise RuntimeError(f"{ended} of 16 processes have left their marks in the trace")
    return calls, looks


def silences(path, seconds):
    """Return the longest silence in ns of an idle event loop, and of one whose store is held."""
    store = SharedStore(path, lock_timeout=2)
    payments = store.breaker("silence", max_failures=100_000)
    payments.call(int)

    async def watch(end):
        longest, last = 0.0, time.perf_counter()
        while last < end:
            await asyncio.sleep(0)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
        return longest * 1e9

    async def work(end):
        while time.perf_counter() < end:
            with contextlib.suppress(KeyError, Rejected):
                async with payments:
                    await asyncio.sleep(0.001)
                    raise KeyError

    async def main(workers):
        end = time.perf_counter() + seconds
        tasks = [asyncio.create_task(work(end)) for _ in range(workers)]
        longest = await watch(end)
        await asyncio.gather(*tasks)
        return longest

    idle = asyncio.run(main(0))
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_STORE, path], text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE)
    try:
        holder.stdout.readline()
        held = asyncio.run(main(10))
    finally:
        holder.communicate("\n")
        store.close()
    return idle, held
