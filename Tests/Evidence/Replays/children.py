"""Processes that a replay starts, and that do as they are told."""

from __future__ import annotations

import multiprocessing
import signal

# A forked child is a process like any other, and opens a store of its own.
_processes = multiprocessing.get_context("fork")


def start(work: object, *arguments: object) -> Child:
    """Start a process that does ``work(commands, ...)``, with a pipe for commands and answers."""
    return Child(work, arguments)


def _live(work: object, *arguments: object) -> None:
    # The replay ends its children, also after an interrupt.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    work(*arguments)


class Child:
    """A process that answers each command."""

    def __init__(self, work: object, arguments: tuple) -> None:
        self._commands, other = _processes.Pipe()
        self._process = _processes.Process(target=_live, args=(work, other, *arguments), daemon=True)
        self._process.start()
        other.close()

    def send(self, command: object) -> None:
        self._commands.send(command)

    def answer(self) -> object:
        """Wait for an answer, however long it takes."""
        return self._commands.recv()

    def do(self, command: object) -> object:
        self.send(command)
        return self.answer()

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._commands.close()
