"""The modules of the package: how they depend on each other and on the library."""

from __future__ import annotations

import ast
import gc
import importlib.util
import os
import sys
import unittest
import weakref

import shared_breaker
from shared_breaker import _extension
from shared_breaker._policy import _KINDS
from support import StoreTestCase

PACKAGE = os.path.dirname(shared_breaker.__file__)


def imports(tree):
    """Return the modules of the package that a module imports, wherever it does, and for types alone too."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found |= {node.module} if node.module else {name.name for name in node.names}
        elif isinstance(node, ast.Import):
            found |= {
                name.name.partition(".")[2] for name in node.names
                if name.name.startswith("shared_breaker.")}
    return found


def graph():
    """Return what each module imports; a name of the package itself is its `__init__`."""
    trees = {}
    for file in os.listdir(PACKAGE):
        name, suffix = os.path.splitext(file)
        if suffix in (".py", ".pyi"):
            with open(os.path.join(PACKAGE, file)) as source:
                trees[name] = ast.parse(source.read())
    return {
        name: {found if found in trees else "__init__" for found in imports(tree)}
        for name, tree in trees.items()}


def circle(edges):
    """Return modules that import each other in a circle; None if there is none."""
    done = set()

    def search(name, path):
        if name in path:
            return [*path[path.index(name):], name]
        if name not in done:
            for other in sorted(edges[name]):
                found = search(other, [*path, name])
                if found:
                    return found
            done.add(name)
        return None

    return next(filter(None, (search(name, []) for name in sorted(edges))), None)


class Modules(unittest.TestCase):
    def test_no_module_imports_another_in_a_circle(self):
        edges = graph()
        self.assertIn("_errors", edges["_policy"])
        self.assertIn("_aio", edges["_history"])
        self.assertIsNone(circle(edges))

    def test_a_circle_would_be_found(self):
        self.assertEqual(circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}), ["b", "c", "b"])
        tree = ast.parse("if TYPE_CHECKING:\n  from ._a import A\ndef f():\n  from . import _b\n")
        self.assertEqual(imports(tree), {"_a", "_b"})

    def test_a_module_that_is_forgotten_keeps_nothing(self):
        words = ["half_open", "forced_closed", "probe", "outdated", "observe"]
        spec = importlib.util.spec_from_file_location(_extension.__name__, _extension.__file__)

        def load():
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            self.assertIsNot(module.Store, _extension.Store)
            return weakref.ref(module.Store)

        load()
        gc.collect()
        before = [sys.getrefcount(sys.intern(word)) for word in words]
        types = [load() for _ in range(20)]
        gc.collect()
        self.assertEqual([kind() for kind in types], [None] * 20)
        after = [sys.getrefcount(sys.intern(word)) for word in words]
        # Leftovers of earlier tests may be released meanwhile.
        self.assertEqual([max(0, now - then) for now, then in zip(after, before)], [0] * len(words))


class Words(StoreTestCase):
    def test_each_word_of_the_librarys_policies_is_a_keyword(self):
        self.store.breaker("payments").call(int)
        words = {word.replace("-", "_") for word in self.store.snapshot("payments")["policy"]}
        self.assertEqual(set(_KINDS), words)

    def test_each_keyword_has_a_value_that_the_library_understands(self):
        # The words that a policy needs beside another one, to open and close a breaker.
        beside = {
            "failures": {"within": 60}, "within": {"failures": 3}, "min_calls": {"failure_rate": 0.5},
            "last": {"failure_rate": 0.5}, "window": {"failure_rate": 0.5, "min_calls": 5},
            "failure_rate": {"window": 60, "min_calls": 5}, "lumping": {"max_failures": 3},
            "slow_rate": {"slow_after": 1, "window": 60, "min_calls": 5},
            "slow_after": {"slow_rate": 0.5, "window": 60, "min_calls": 5},
            "open_multiplier": {"open_max": 600}, "open_max": {"open_multiplier": 2},
            "probe_calls": {"probe_failure_rate": 0.5}, "probe_failure_rate": {"probe_calls": 5},
            "fleet_spread": {"fleet_quorum": 2}, "reserve": {"max_concurrent": 8},
            "queue": {"max_concurrent": 8, "queue_timeout": 60}, "queue_timeout": {"max_concurrent": 8},
            "lost_calls": {"max_concurrent": 8},
        }
        value = {"Count": 4, "Rate": 0.25, "Seconds": 90, "Factor": 3, "CountOrRate": 2, "Word": "failure",
                 "Flag": True, "CallRate": "500/1m"}
        said = {**value, "Rate": "25%", "Seconds": "90s", "Flag": "yes"}
        for word, kind in _KINDS.items():
            with self.subTest(word):
                keywords = {"window": 60, **beside.get(word, {})} if word == "min_calls" else {
                    **beside.get(word, {})}
                breaker = self.store.breaker(word, **{**keywords, word: value[kind]})
                breaker.call(int)
                policy = self.store.snapshot(word)["policy"]
                self.assertEqual(policy[word.replace("_", "-")], said[kind])


if __name__ == "__main__":
    unittest.main()
