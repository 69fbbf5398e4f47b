"""A plugin for pytest, which is there as soon as the package is installed.

``breaker_host``   a ``shared_breaker.testing.Host`` in a directory of the test, to which the default store leads
                   meanwhile, with all breakers of the program that were got from it
``breaker_store``  its store
``breaker_clock``  its clock, such as for ``breaker_clock.advance(30)``

No test uses the default store of the user who runs the tests: tests without a fixture use a store of the test
run, or of each worker of pytest-xdist.
"""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ._shared_store import SharedStore
    from .testing import Clock, Host

_VARIABLE = "SHARED_BREAKER_STORE"


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Lead the default store into a directory of the run, before any module of the tests is imported."""
    directory = tempfile.mkdtemp(prefix="shared-breaker-tests-")
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = os.path.join(directory, "breakers.db")

    def restore() -> None:
        if before is None:
            os.environ.pop(_VARIABLE, None)
        else:
            os.environ[_VARIABLE] = before
        shutil.rmtree(directory, ignore_errors=True)

    early_config.add_cleanup(restore)


@pytest.fixture
def breaker_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """A host of the test's own, to which the default store leads."""
    from . import default_store
    from .testing import Host

    directory = tmp_path / "shared-breaker"
    directory.mkdir()
    with Host(directory, store=default_store()) as host:
        monkeypatch.setenv(_VARIABLE, host.path)
        yield host


@pytest.fixture
def breaker_store(breaker_host: Host) -> SharedStore:
    """The default store, which leads to a file of the test's own."""
    return breaker_host.store


@pytest.fixture
def breaker_clock(breaker_host: Host) -> Clock:
    """The clock of ``breaker_store``, which the test moves by hand."""
    return breaker_host.clock
