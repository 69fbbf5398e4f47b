"""The metrics for Prometheus and OpenTelemetry, with their packages, and the events on spans."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import subprocess
import sys
import time
import unittest
import unittest.mock
from pathlib import Path

from shared_breaker import InvalidName, Rejected, SharedStore
from shared_breaker._metrics import visible
from support import Resource, StoreTestCase, eventually, threads

ALERTS = (
    Path(__file__).parents[3]
    / "Sources/Breaker/SharedBreaker/SharedBreaker.docc/Resources/prometheus-alerts.yml")
SNAPSHOT = Path(__file__).parents[2] / "Command/ControlKitTests/Snapshots/metrics.txt"


def has(package):
    """Return whether a package is installed."""
    top = package.partition(".")[0]  # whose absence would be an error in looking for the rest
    return bool(importlib.util.find_spec(top) and importlib.util.find_spec(package))


class MetricsTestCase(StoreTestCase):
    def setUp(self):
        super().setUp()
        self.payments = self.store.breaker("payments", max_failures=2, ignore=KeyError)

    def use(self):
        """Make calls of every outcome, open the breaker and be rejected."""
        for _ in range(5):
            self.payments.call(int)
        for _ in range(3):
            self.assertRaises(KeyError, self.payments.call, {}.__getitem__, 1)
        self.let_fail(self.payments, times=2)
        for _ in range(4):
            self.assertRaises(Rejected, self.payments.call, int)


@unittest.skipUnless(has("prometheus_client"), "prometheus_client is not installed")
class Prometheus(MetricsTestCase):
    def registry(self, *stores, **options):
        from prometheus_client import CollectorRegistry

        from shared_breaker.prometheus import BreakerCollector

        registry = CollectorRegistry()
        registry.register(BreakerCollector(*(stores or (self.store,)), **options))
        return registry

    def families(self, registry):
        return {family.name: family for family in registry.collect()}

    def text(self, registry):
        from prometheus_client import generate_latest

        return generate_latest(registry).decode()

    def test_the_metrics_of_a_breaker_say_what_its_snapshot_says(self):
        self.use()
        self.payments.force("observe", 60, reason="a test")
        self.payments.call(int)
        registry = self.registry()

        def value(metric, **labels):
            return registry.get_sample_value(f"shared_breaker_{metric}", labels)

        def of(metric, **labels):
            return value(metric, name="payments", **labels)

        self.assertEqual(
            [of("state", state=state) for state in ("closed", "open", "half_open")], [0, 1, 0])
        self.assertEqual((of("mode", mode="observe"), of("mode", mode="automatic")), (1, 0))
        self.assertTrue(50 < of("mode_remaining_seconds") <= 60)
        self.assertEqual(of("permitted"), 1)
        self.assertEqual(of("consecutive_failures"), 2)
        self.assertAlmostEqual(
            of("last_transition_timestamp_seconds"), value("collected_timestamp_seconds"), delta=60)
        self.assertEqual(
            [of("transitions_total", to=state) for state in ("closed", "open", "half_open")], [0, 1, 0])
        self.assertEqual(of("probes_in_flight"), 0)
        self.assertEqual(of("flapping"), 0)
        # The last second of the present state is left to the next scrape.
        self.assertLess(of("state_seconds_total", state="open"), 60)
        self.assertEqual(of("state_seconds_total", state="half_open"), 0)
        author = self.store.snapshot("payments")["mode_set_by"]
        self.assertAlmostEqual(
            of("mode_set_timestamp_seconds", mode="observe", set_by=author),
            value("collected_timestamp_seconds"), delta=60)
        self.assertEqual(
            [of("calls_total", outcome=each) for each in ("success", "failure", "ignored")],
            [6, 2, 3])
        self.assertEqual(of("rejections_total"), 4)
        self.assertEqual(of("observed_rejections_total"), 1)
        self.assertEqual(of("slow_calls_total"), 0)
        self.assertEqual(value("store_up"), 1)
        self.assertEqual(value("store_breakers"), 1)
        self.assertEqual(value("process_alone"), 0)
        self.assertGreater(value("store_size_bytes", file="database"), 0)

    def test_a_breaker_that_flaps_is_marked(self):
        for outage in range(1, 6):
            self.payments.trip()
            self.payments.reset()
            registry = self.registry()
            marked = registry.get_sample_value("shared_breaker_flapping", {"name": "payments"})
            self.assertEqual(marked, outage == 5)

    def test_a_limit_has_samples_of_units_in_use_waits_and_busy_rejections(self):
        gpu = self.store.breaker("gpu", max_concurrent=2)
        registry = self.registry()

        def of(metric, **labels):
            return registry.get_sample_value(f"shared_breaker_{metric}", {"name": "gpu", **labels})

        permits = [gpu.acquire(), gpu.acquire()]
        self.assertRaises(Rejected, gpu.call, int)
        self.assertEqual((of("units_in_use"), of("limit_units"), of("callers_waiting")), (2, 2, 0))
        for permit in permits:
            permit.report("success")
        self.assertEqual(of("units_in_use"), 0)
        self.assertEqual((of("busy_rejections_total"), of("rejections_total")), (1, 0))
        self.assertEqual((of("lost_calls_total"), of("abandoned_waits_total")), (0, 0))
        self.assertEqual(of("wait_seconds_bucket", le="+Inf"), 0)
        self.assertEqual((of("wait_seconds_count"), of("wait_seconds_sum")), (0, 0))
        # Without the file of the slots the calls under way are unknown, so there is no sample.
        os.remove(f"{self.path}-slots")
        self.assertIsNone(of("units_in_use"))
        self.assertIsNone(of("wait_seconds_count"))
        self.assertEqual(of("limit_units"), 2)
        self.payments.call(int)
        payments = {"name": "payments"}
        self.assertIsNone(registry.get_sample_value("shared_breaker_limit_units", payments))
        self.assertIsNone(registry.get_sample_value("shared_breaker_busy_rejections_total", payments))

    def test_a_breaker_whose_calls_were_held_has_samples_of_holds(self):
        self.payments.call(int)
        registry = self.registry()

        def of(metric):
            return registry.get_sample_value(f"shared_breaker_{metric}", {"name": "payments"})

        self.assertIsNone(of("hold_seconds"))
        self.assertIsNone(of("holds_total"))
        before = time.time()
        self.payments.acquire().report("hold", hold_for=600)
        self.assertRaises(Rejected, self.payments.call, int)
        self.assertAlmostEqual(of("hold_seconds"), 600, delta=60)
        self.assertAlmostEqual(of("hold_since_timestamp_seconds"), before, delta=60)
        self.assertEqual((of("holds_total"), of("held_rejections_total"), of("rejections_total")), (1, 1, 0))
        self.payments.end_hold()
        self.assertEqual((of("hold_seconds"), of("hold_since_timestamp_seconds")), (0, None))

    def test_the_seconds_in_a_state_never_go_back(self):
        from shared_breaker import _metrics

        family = next(f for f in _metrics.BREAKER_FAMILIES if f.name == "state_seconds_total")
        last = {}
        for _ in range(200):
            self.payments.trip()
            self.payments.reset()
            for labels, seconds in family.samples(self.store.snapshot("payments")):
                self.assertGreaterEqual(seconds, last.get(labels["state"], 0))
                last[labels["state"]] = seconds

    def test_names_help_and_labels_are_those_of_cbctl(self):
        self.use()
        self.store.breaker("gpu", max_concurrent=2).call(int)
        self.payments.force("observe", 60)
        lines = SNAPSHOT.read_text().splitlines()
        kinds = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE")}
        helps = {line.split()[2]: line.split(None, 3)[3] for line in lines if line.startswith("# HELP")}
        labels = {}
        for line in lines:
            if not line.startswith("#"):
                names = frozenset(re.findall(r'([a-z_]+)="', line))
                labels.setdefault(re.match(r"\w+", line)[0], set()).add(names)
        own = {"shared_breaker_process_alone"}
        reworded = {
            "shared_breaker_build_info", "shared_breaker_collected_timestamp_seconds",
            "shared_breaker_store_breakers_left_out"}
        for family in self.registry().collect():
            name = family.name + ("_total" if family.type == "counter" else "")
            if name in own:
                continue
            self.assertEqual(family.type, kinds[name])
            if name not in reworded:
                self.assertEqual(family.documentation, helps[name])
            for sample in family.samples:
                self.assertIn(frozenset(sample.labels), labels[sample.name])

    def test_the_alerts_use_only_metrics_that_there_are(self):
        self.payments.force("observe", 60)
        self.payments.hold(60)
        self.store.breaker("gpu", max_concurrent=2, retry_budget=0.2).call(int)
        ours = {sample.name for family in self.registry().collect() for sample in family.samples}
        asked = set(re.findall(r"shared_breaker_[a-z_]+", ALERTS.read_text()))
        asked = {name for name in asked if not name.startswith("shared_breaker_fleet_")}
        self.assertGreater(len(asked), 5)
        self.assertEqual(asked - ours, set())

    @unittest.skipUnless(os.environ.get("CBCTL"), "there is no cbctl: build it, or set CBCTL")
    def test_the_figures_are_those_of_cbctl(self):
        self.use()
        self.store.breaker("gpu", max_concurrent=2).call(int)
        self.store.breaker('odd "name" \u202e\\').call(int)
        ours = self.text(self.registry()).splitlines()
        done = subprocess.run(
            [os.environ["CBCTL"], "--store", self.path, "metrics"], check=True, text=True,
            stdout=subprocess.PIPE)

        def figures(lines):
            # Figures of the moment, and of a property that only one of them has.
            moment = (
                "build_info", "collected_", "process_", "size_bytes", "timestamp", "state_seconds")
            return {
                (re.match(r"\w+", line)[0], *sorted(re.findall(r'\w+="(?:[^"\\]|\\.)*"', line))):
                float(line.rpartition(" ")[2])
                for line in lines
                if not line.startswith("#") and not any(word in line for word in moment)}

        theirs = figures(done.stdout.splitlines())
        for series, value in figures(ours).items():
            self.assertEqual(theirs[series], value, series)

    def test_a_store_that_was_never_used_has_no_samples_and_is_not_created(self):
        registry = self.registry()
        self.assertIsNone(registry.get_sample_value("shared_breaker_store_up"))
        self.assertEqual(registry.get_sample_value("shared_breaker_process_alone"), 0)
        self.assertEqual(os.listdir(self.directory), [])
        self.assertNotIn("shared_breaker_state", self.families(registry))
        self.use()
        self.assertEqual(registry.get_sample_value("shared_breaker_store_up"), 1)

    def test_a_store_that_was_used_and_is_gone_is_down_until_a_call_makes_another_one(self):
        self.use()
        registry = self.registry()
        for file in os.listdir(self.directory):
            os.remove(os.path.join(self.directory, file))
        self.assertEqual(registry.get_sample_value("shared_breaker_store_up"), 0)
        self.assertFalse(os.path.exists(self.path))
        orders = self.store.breaker("orders")
        eventually(lambda: orders.call(int)
                   or registry.get_sample_value("shared_breaker_store_up") == 1)

    def test_an_unusable_store_is_down(self):
        os.mkdir(self.path)
        self.assertEqual(self.registry().get_sample_value("shared_breaker_store_up"), 0)

    def test_a_store_that_fails_is_down_and_comes_back(self):
        self.use()
        registry = self.registry()
        os.rename(self.path, f"{self.path}.away")
        Path(self.path).write_text("not a store\n" * 1_000)
        eventually(lambda: registry.get_sample_value("shared_breaker_store_up") == 0)
        self.assertNotIn("shared_breaker_state", self.families(registry))
        # It is this process that is alone then, whatever others see.
        orders = self.store.breaker("orders")
        eventually(lambda: orders.call(int)
                   or registry.get_sample_value("shared_breaker_process_alone") == 1)
        os.replace(f"{self.path}.away", self.path)
        eventually(lambda: registry.get_sample_value("shared_breaker_store_up") == 1)

    def test_a_closed_store_is_down(self):
        registry = self.registry()
        self.use()
        self.store.close()
        self.assertEqual(registry.get_sample_value("shared_breaker_store_up"), 0)

    def test_breakers_can_be_selected_and_the_rest_is_counted(self):
        for name in ("http/a", "http/b", "http/c", "mail"):
            self.store.breaker(name).call(int)
        registry = self.registry(prefix="http/", limit=2)
        named = {
            sample.labels["name"] for family in registry.collect() for sample in family.samples
            if "name" in sample.labels}
        self.assertEqual(named, {"http/a", "http/b"})
        self.assertEqual(registry.get_sample_value("shared_breaker_store_breakers"), 5)
        self.assertEqual(registry.get_sample_value("shared_breaker_store_breakers_left_out"), 1)

    def test_several_stores_have_a_label(self):
        self.use()
        with SharedStore(f"{self.path}.other") as other:
            other.breaker("payments").call(int)
            registry = self.registry({"shop": self.store, "office": other})
            text = self.text(registry)
        self.assertIn('shared_breaker_store_up{store="shop"} 1.0', text)
        self.assertEqual(text.count("# TYPE shared_breaker_state gauge"), 1)
        self.assertRegex(text, r'calls_total\{name="payments",outcome="failure",store="shop"\} 2\.0')
        self.assertRegex(text, r'calls_total\{name="payments",outcome="failure",store="office"\} 0')

    def test_a_second_collector_in_a_registry_is_refused(self):
        from shared_breaker.prometheus import BreakerCollector

        registry = self.registry()
        with self.assertRaisesRegex(ValueError, "Duplicated"):
            registry.register(BreakerCollector(self.store))

    def test_mistakes_are_found_at_once(self):
        from shared_breaker.prometheus import BreakerCollector

        for error, words in (
            (ValueError, {"limit": 0}), (ValueError, {"limit": True}), (ValueError, {"limit": 1.5}),
            (InvalidName, {"prefix": "\udc80"}), (TypeError, {"prefix": 7})):
            with self.assertRaises(error):
                BreakerCollector(self.store, **words)
        with self.assertRaises(TypeError):
            BreakerCollector({"a": self.path})

    def test_collecting_starts_no_thread(self):
        self.use()
        registry = self.registry()
        before = threads()
        self.text(registry)
        self.assertEqual(threads(), before)

    def test_the_text_can_be_parsed_and_keeps_names_apart(self):
        from prometheus_client.openmetrics.exposition import generate_latest as open_metrics
        from prometheus_client.parser import text_string_to_metric_families

        names = ['a"b', "a\\b", "größe 結果 😀", "a\u202e", "a\\u{202e}", "👩\u200d👩"]
        for name in names:
            self.store.breaker(name).call(int)
        registry = self.registry()
        parsed = {
            sample.labels["name"] for family in text_string_to_metric_families(self.text(registry))
            for sample in family.samples if sample.name == "shared_breaker_permitted"}
        self.assertEqual(
            parsed - {"payments"}, {'a"b', "a\\b", "größe 結果 😀", "a\\u{202e}", "a\\u{5c}u{202e}", "👩\u200d👩"})
        self.assertTrue(open_metrics(registry).endswith(b"# EOF\n"))

    def test_workers_of_a_prefork_server_all_give_the_same_answer(self):
        directory = os.path.join(self.directory, "prometheus")
        os.mkdir(directory)
        program = """
import os, sys
from prometheus_client import CollectorRegistry, Counter, generate_latest, multiprocess
from shared_breaker import SharedStore
from shared_breaker.prometheus import BreakerCollector

requests = Counter("requests", "Requests.")
store = SharedStore(sys.argv[1])
payments = store.breaker("payments", max_failures=2)

def work():
    requests.inc()
    payments.call(int)

def scrape():
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)
    registry.register(BreakerCollector(store))
    return generate_latest(registry).decode()

for _ in range(3):
    if not (child := os.fork()):
        work()
        store.flush()
        os._exit(0)
    os.waitpid(child, 0)
reader, writer = os.pipe()
if not os.fork():
    os.write(writer, scrape().encode())
    os._exit(0)
os.close(writer)
child = open(reader).read()
mine = scrape()
lines = lambda text: [line for line in text.splitlines() if "timestamp" not in line and "bytes" not in line]
assert lines(child) == lines(mine), (child, mine)
print(mine)
"""
        done = subprocess.run(
            [sys.executable, "-c", program, self.path], check=True, text=True, timeout=120,
            stdout=subprocess.PIPE, env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": directory})
        self.assertIn("requests_total 3.0", done.stdout)
        self.assertIn('shared_breaker_calls_total{name="payments",outcome="success"} 3.0', done.stdout)


@unittest.skipUnless(has("opentelemetry.sdk"), "opentelemetry-sdk is not installed")
class OpenTelemetry(MetricsTestCase):
    def setUp(self):
        super().setUp()
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])
        self.addCleanup(self.meters.shutdown)
        self.spans = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.spans))
        self.addCleanup(provider.shutdown)
        self.tracer = provider.get_tracer("test")

    def instrument(self, *stores, **options):
        from shared_breaker.opentelemetry import instrument

        end = instrument(*(stores or (self.store,)), meter_provider=self.meters, **options)
        self.addCleanup(end)
        return end

    def points(self):
        """Return the values of all metrics, by their names and attributes, and the metrics."""
        data = self.reader.get_metrics_data()
        found = [
            metric for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics for metric in scope.metrics]
        values = {
            (metric.name, *sorted(point.attributes.items())): point.value
            for metric in found for point in metric.data.data_points}
        return values, {metric.name: metric for metric in found}

    def events(self):
        return [
            (event.name.removeprefix("shared_breaker."),
             {key.removeprefix("shared_breaker."): value for key, value in event.attributes.items()})
            for span in self.spans.get_finished_spans() for event in span.events
            if event.name != "exception"]

    def test_instruments_say_what_the_snapshot_says(self):
        self.instrument()
        self.use()
        values, found = self.points()
        name = ("name", "payments")
        self.assertEqual(values["shared_breaker.state", name, ("state", "open")], 1)
        self.assertEqual(values["shared_breaker.state", name, ("state", "closed")], 0)
        self.assertEqual(values["shared_breaker.transitions", name, ("to", "open")], 1)
        self.assertLess(values["shared_breaker.state_duration", name, ("state", "open")], 60)
        self.assertEqual(found["shared_breaker.state_duration"].unit, "s")
        self.assertEqual(values["shared_breaker.flapping", name], 0)
        self.assertEqual(values["shared_breaker.rejections", name], 4)
        for outcome, count in (("success", 5), ("failure", 2), ("ignored", 3)):
            self.assertEqual(values["shared_breaker.calls", name, ("outcome", outcome)], count)
        self.assertEqual(values["shared_breaker.store_up",], 1)
        self.assertTrue(found["shared_breaker.calls"].data.is_monotonic)
        self.assertEqual(found["shared_breaker.store_size"].unit, "By")
        self.assertEqual(found["shared_breaker.last_transition_timestamp"].unit, "s")

    def test_instruments_say_what_is_under_way_under_a_limit(self):
        self.instrument()
        self.store.breaker("gpu", max_concurrent=2).call(int)
        values, found = self.points()
        name = ("name", "gpu")
        self.assertEqual(values["shared_breaker.units_in_use", name], 0)
        self.assertEqual(values["shared_breaker.limit_units", name], 2)
        self.assertEqual(values["shared_breaker.waits", name], 0)
        self.assertEqual(values["shared_breaker.wait_duration", name], 0)
        self.assertEqual(found["shared_breaker.wait_duration"].unit, "s")
        self.assertEqual(values["shared_breaker.busy_rejections", name], 0)
        self.assertNotIn(("shared_breaker.limit_units", ("name", "payments")), values)

    def test_each_collection_reads_the_store_once(self):
        from shared_breaker import opentelemetry

        self.use()
        reads = []
        # However long a collection takes here.
        young = unittest.mock.patch.object(opentelemetry._Reading, "_YOUNG", float("inf"))
        young.start()
        self.addCleanup(young.stop)

        class Counted(SharedStore):
            def snapshots(self, *words):
                reads.append(1)
                return super().snapshots(*words)

        with Counted(self.path) as store:
            self.instrument(store)
            for count in range(1, 4):
                self.points()
                self.assertEqual(len(reads), count)

    def test_a_store_that_fails_is_down(self):
        with SharedStore("/proc/version/breakers.db") as store:
            self.instrument({"gone": store, "here": self.store})
            self.use()
            values, _ = self.points()
        self.assertEqual(values["shared_breaker.store_up", ("store", "gone")], 0)
        self.assertEqual(values["shared_breaker.store_up", ("store", "here")], 1)
        self.assertEqual(
            values["shared_breaker.rejections", ("name", "payments"), ("store", "here")], 4)

    def test_the_current_span_has_an_event_for_each_failure_rejection_and_transition(self):
        self.instrument()
        with self.tracer.start_as_current_span("request"):
            self.let_fail(self.payments, times=2)
            self.assertRaises(Rejected, self.payments.call, int)
        events = self.events()
        self.assertEqual(
            [kind for kind, _ in events], ["failure", "failure", "transition", "rejection"])
        self.assertEqual(
            events[0][1], {"name": "payments", "outcome": "counted", "message": "Resource: down"})
        self.assertEqual(events[2][1], {"name": "payments", "from": "closed", "to": "open"})
        words = events[3][1]
        self.assertEqual((words["name"], words["state"]), ("payments", "open"))
        self.assertIn("payments is rejecting calls", words["message"])
        self.assertTrue(0 < words["retry_after"] <= 30)

    def test_spans_of_tasks_have_the_events_of_their_own_calls(self):
        self.instrument()

        async def work(name):
            with self.tracer.start_as_current_span(name):
                try:
                    async with self.payments:
                        await asyncio.sleep(0)
                        raise Resource(name)
                except Resource:
                    pass

        async def main():
            await asyncio.gather(work("a"), work("b"))

        asyncio.run(main())
        for span in self.spans.get_finished_spans():
            failures = [event for event in span.events if event.name == "shared_breaker.failure"]
            self.assertEqual(
                [event.attributes["shared_breaker.message"] for event in failures],
                [f"Resource: {span.name}"])

    def test_a_span_is_told_when_the_store_is_lost(self):
        with SharedStore("/proc/no/such/directory/breakers.db") as store:
            self.instrument(store)
            with self.tracer.start_as_current_span("request"):
                store.breaker("payments", max_failures=2).call(int)
        (kind, words), = self.events()
        self.assertEqual((kind, words["state"]), ("store", "unavailable"))
        self.assertIn("/proc/no", words["message"])

    def test_without_a_span_nothing_is_said(self):
        self.instrument()
        self.use()
        self.assertEqual(self.events(), [])

    def test_metrics_and_spans_can_be_had_alone(self):
        self.instrument(with_metrics=False)
        self.use()
        self.assertEqual(self.points()[0], {})
        self.payments.reset()
        with SharedStore(f"{self.path}.other") as other:
            self.instrument(other, with_spans=False)
            with self.tracer.start_as_current_span("request"):
                other.breaker("payments").trip()
            self.assertEqual(self.events(), [])
            self.assertTrue(self.points()[0])

    def test_ended_instruments_say_nothing_more(self):
        end = self.instrument()
        self.use()
        end()
        with self.tracer.start_as_current_span("request"):
            self.payments.reset()
        self.assertEqual((self.points()[0], self.events()), ({}, []))


class Optional(unittest.TestCase):
    def test_an_import_without_the_package_says_what_to_install(self):
        for module, package, extra in (
            ("prometheus", "prometheus_client", "prometheus"),
            ("opentelemetry", "opentelemetry", "opentelemetry")):
            program = f"""
import sys
class Nothing:
    def find_spec(self, name, *words):
        if name.partition(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Nothing())
try:
    import shared_breaker.{module}
except ModuleNotFoundError as error:
    print(error)
"""
            done = subprocess.run(
                [sys.executable, "-c", program], check=True, text=True, stdout=subprocess.PIPE)
            self.assertIn(f"pip install 'shared-breaker[{extra}]'", done.stdout)

    def test_the_package_itself_imports_neither(self):
        program = "import shared_breaker, sys; print([m for m in sys.modules if 'prom' in m or 'telem' in m])"
        done = subprocess.run(
            [sys.executable, "-c", program], check=True, text=True, stdout=subprocess.PIPE)
        self.assertEqual(done.stdout, "[]\n")

    def test_a_label_shows_a_name_that_would_mislead_and_keeps_names_apart(self):
        for name, shown in (
            ("payments", "payments"), ("größe 結果", "größe 結果"), ("a\u200b", r"a\u{200b}"),
            ("a\u202eb", r"a\u{202e}b"), ("結\ufe0f", "結\ufe0f"), ("a\ufe0f", r"a\u{fe0f}"),
            (r"a\u{202e}", r"a\u{5c}u{202e}"), (r"a\b", r"a\b")):
            self.assertEqual(visible(name), shown)


if __name__ == "__main__":
    unittest.main()
