"""Measures what calls through a breaker cost, beside their floors and peers, in one run.

    scripts/parts/bench-python [--quick]

Each figure is the least of several rounds, in nanoseconds unless its name says otherwise: what is measured
takes that long where nothing else uses the processor.
"""

from __future__ import annotations

import contextlib
import contextvars
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import timeit
from importlib.metadata import version

from bench_costs import bytes_kept, silences, system_calls
from floor import Empty

from shared_breaker import Rejected, SharedStore, pybreaker

ROUNDS = 20 if "--quick" in sys.argv else 60


def least(statement, number=20_000, **names):
    """Return the nanoseconds of a statement."""
    rounds = timeit.repeat(statement, number=number, repeat=ROUNDS, globals=names)
    return min(rounds) / number * 1e9


def least_awaited(work, number=20_000):
    """Return the nanoseconds of a loop of awaits that `work` makes."""
    rounds = []
    for _ in range(ROUNDS):
        coroutine = work(number)
        begin = time.perf_counter()
        with contextlib.suppress(StopIteration):
            coroutine.send(None)
        rounds.append(time.perf_counter() - begin)
    return min(rounds) / number * 1e9


def row(name, cost, floor=0.0, target=None):
    """Print what something costs above its floor."""
    above = cost - floor
    wanted = "" if target is None else f"{'' if above <= target else 'more than '}{target:,}"
    print(f"{name:<53}{cost:>12,.0f}{above:>12,.0f}  {wanted}", flush=True)


def nothing():
    pass


def three(first, second, third=3):
    pass


async def nothing_async():
    pass


def raise_and_catch():
    try:
        raise KeyError
    except KeyError:
        pass


class Plain:
    def __enter__(self):
        pass

    def __exit__(self, *exception):
        pass


def measure_blocks(payments):
    floor = least("with e: pass", e=Empty())
    row("with an empty object in C", floor)
    row("with an object in Python", least("with e: pass", e=Plain()), floor)
    row("with the breaker", least("with e: pass", e=payments), floor, 30)


def measure_calls(payments):
    floor = least("f()", f=nothing)
    row("an empty function", floor)
    row("  decorated", least("f()", f=payments(nothing)), floor, 40)
    row("  through call()", least("c(f)", c=payments.call, f=nothing), floor, 40)
    floor = least("f(1, 2, third=4)", f=three)
    row("a function with three arguments", floor)
    row("  decorated", least("f(1, 2, third=4)", f=payments(three)), floor, 40)
    row("  acquire() and report()", least("b.acquire().report()", b=payments))


def measure_coroutines(payments):
    guarded = payments(nothing_async)

    async def bare(number):
        for _ in range(number):
            await nothing_async()

    async def decorated(number):
        for _ in range(number):
            await guarded()

    async def loop(number):
        for _ in range(number):
            pass

    async def block(number):
        for _ in range(number):
            async with payments:
                pass

    floor = least_awaited(bare)
    row("an awaited coroutine", floor)
    row("  decorated", least_awaited(decorated), floor, 60)
    row("async with the breaker", least_awaited(block), least_awaited(loop), 120)


def measure_limits(payments, gpu):
    floor = least("with e: pass", e=payments)
    row("with the breaker, again", floor)
    row("  under a limit, with room", least("with e: pass", e=gpu), floor, 200)
    with gpu:
        beside = contextvars.Context().run(least, "with e: pass", e=gpu)
    row("  under a limit, beside another call", beside, floor, 300)
    floor = least("f()", f=payments(nothing))
    row("a decorated function", floor)
    row("  under a limit, with room", least("f()", f=gpu(nothing)), floor, 200)


def measure_failures(payments):
    def fail():
        try:
            with payments:
                raise KeyError
        except KeyError:
            pass

    def rejected():
        try:
            with payments:
                pass
        except Rejected:
            pass

    floor = least("f()", f=raise_and_catch)
    row("an exception, raised and caught", floor)
    row("a failure, written to the file", least("f()", 500, f=fail), floor)
    payments.trip(3600)
    row("a rejection, raised and caught", least("f()", f=rejected), 0, 400)


def measure_costs(payments, path):
    row("bytes kept by 10,000 calls", *bytes_kept(payments), 0)
    calls = system_calls(path)
    if calls is None:
        print("strace is not installed: system calls are left out")
    else:
        row("system calls but stat, 16 million calls, 16 processes", calls[0], 0, 0)
        row("  stat, once a second in each process", calls[1])
    rounds = [silences(path, 1 if "--quick" in sys.argv else 10) for _ in range(3)]
    idle, held = map(min, zip(*rounds))
    row("the longest silence of an idle event loop", idle)
    row("  while another process holds the store", held, idle, 10_000_000)


def measure_starting(path):
    program = "from shared_breaker import breaker\nwith breaker('starting', max_failures=3): pass"
    environment = {
        **os.environ, "SHARED_BREAKER_STORE": path, "PYTHONPYCACHEPREFIX": f"{path}-bytecode"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def start(words):
        rounds = []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", words], env=environment, check=True)
            rounds.append(time.perf_counter() - begin)
        return min(rounds) * 1e9

    floor = start("pass")
    row("python -c pass", floor)
    row("  with an import and a first call", start(program), floor, 15_000_000)


def measure_pybreaker(title, module, number=20_000, **options):
    breaker = module.CircuitBreaker(fail_max=100, **options)

    def block():
        with breaker.calling():
            pass

    floor = least("f()", f=nothing)
    row(f"{title}: call()", least("c(f)", number, c=breaker.call, f=nothing), floor)
    row(f"{title}: decorated", least("f()", number, f=breaker(nothing)), floor)
    row(f"{title}: calling()", least("f()", number, f=block), floor)


@contextlib.contextmanager
def redis_server():
    """Start a Redis server, and give the path of its socket; None if something is missing."""
    if importlib.util.find_spec("redis") is None or shutil.which("redis-server") is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "socket")
        server = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", directory],
            stdout=subprocess.DEVNULL)
        try:
            while not os.path.exists(path):
                time.sleep(0.01)
            yield path
        finally:
            server.terminate()
            server.wait()


def measure_pybreaker_redis(module, path):
    import redis

    client = redis.Redis(unix_socket_path=path)
    storage = module.CircuitRedisStorage(module.STATE_CLOSED, client)
    options = {"state_storage": storage, "throw_new_error_on_trip": False}
    measure_pybreaker("pybreaker over Redis", module, number=200, **options)
    breaker = module.CircuitBreaker(fail_max=1_000_000, **options)

    def fail():
        with contextlib.suppress(KeyError):
            breaker.call({}.__getitem__, 0)

    row("pybreaker over Redis: a failure", least("f()", 200, f=fail))


def measure_purgatory_redis(module, path):
    factory = module.SyncCircuitBreakerFactory(
        default_threshold=1_000_000, uow=module.SyncRedisUnitOfWork(f"unix://{path}"))

    def block():
        with factory.get_breaker("bench"):
            pass

    def fail():
        with contextlib.suppress(KeyError):
            with factory.get_breaker("bench"):
                raise KeyError

    floor = least("f()", f=nothing)
    guarded = factory("bench")(nothing)
    row("purgatory over Redis: decorated", least("f()", 200, f=guarded), floor)
    row("purgatory over Redis: with", least("f()", 200, f=block), floor)
    row("purgatory over Redis: a failure", least("f()", 200, f=fail))


def measure_peers(store):
    measure_pybreaker("shared_breaker.pybreaker", pybreaker, name="peer", store=store)
    try:
        import pybreaker as original
    except ImportError:
        original = None
        print("pybreaker is not installed: left out")
    else:
        measure_pybreaker("pybreaker, of one process", original)
    try:
        # Its successor, which is just named purgatory, has an asynchronous client of Redis in its
        # synchronous breakers, which then fail.
        version("purgatory-circuitbreaker")
        import purgatory
    except ImportError:
        purgatory = None
        print("purgatory-circuitbreaker is not installed: left out")
    with redis_server() as path:
        if path is None:
            print("redis-server, or redis of PyPI, is not installed: peers over Redis are left out")
        if path and original:
            measure_pybreaker_redis(original, path)
        if path and purgatory:
            measure_purgatory_redis(purgatory, path)
    try:
        from circuitbreaker import circuit
    except ImportError:
        print("circuitbreaker is not installed: left out")
    else:
        floor = least("f()", f=nothing)
        cost = least("f()", 20_000, f=circuit(failure_threshold=100)(nothing))
        row("circuitbreaker, of one process: decorated", cost, floor)


def measure_clients(store):
    """Measure whole requests of httpx to an answer in memory, bare and behind breakers."""
    try:
        import httpx

        from shared_breaker.httpx import Transport
    except ImportError:
        print("httpx is not installed: left out")
        return
    answer = httpx.MockTransport(lambda request: httpx.Response(200, content=b"hello"))

    def cost(transport):
        with httpx.Client(transport=transport) as client:
            return least("get('http://api.example/')", 200, get=client.get)

    floor = cost(answer)
    row("httpx: get(), with an answer in memory", floor)
    row("  through Transport", cost(Transport(answer, store=store)), floor)
    row("  through Transport, under a limit", cost(Transport(answer, store=store, max_concurrent=4)), floor)
    try:
        from interlock.integrations.httpx import CircuitBreakerTransport
    except ImportError:
        print("interlock-cb is not installed: left out")
        return
    row("  through interlock-cb, of one process", cost(CircuitBreakerTransport(answer)), floor)


def main():
    print(f"Python {sys.version.split()[0]}, least of {ROUNDS} rounds, in nanoseconds")
    print(f"{'':<53}{'costs':>12}{'above':>12}  at most")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        path = os.path.join(directory, "breakers.db")
        with SharedStore(path) as store:
            payments = store.breaker("payments", max_failures=1_000_000)
            payments.call(nothing)
            measure_blocks(payments)
            measure_calls(payments)
            measure_coroutines(payments)
            gpu = store.breaker("gpu", max_concurrent=4)
            gpu.call(nothing)
            measure_limits(payments, gpu)
            measure_failures(payments)
            measure_clients(store)
            measure_peers(store)
            measure_starting(path)
            measure_costs(store.breaker("kept"), path)


if __name__ == "__main__":
    main()
