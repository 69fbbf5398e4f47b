"""Prints figures as a table, and checks what a replay claims of them."""

from __future__ import annotations

import sys


class Figures:
    """The figures of a replay, and its claims."""

    def __init__(self, title: str) -> None:
        print(title, end="\n\n")
        self._failed = False

    def table(self, *rows: tuple) -> None:
        """Print rows, of which the first is the head."""
        texts = [[str(value) for value in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(*texts)]
        texts.insert(1, ["-" * width for width in widths])
        for row in texts:
            first, *others = zip(row, widths)
            cells = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]
            print("| " + " | ".join(cells) + " |")
        print(flush=True)

    def claim(self, claim: str, found: object, *, expected: object = True) -> None:
        """Check a claim, and say so if it does not hold."""
        if found != expected:
            self._failed = True
            print(f"THE CLAIM DOES NOT HOLD: {claim}: {found}, and not {expected}", flush=True)

    def end(self) -> None:
        """End the program: with 1 if a claim does not hold."""
        sys.exit(1 if self._failed else 0)
