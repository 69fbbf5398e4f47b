"""Builds the extension on libsharedbreaker.

SHARED_BREAKER_LIBRARY names a directory of ``scripts/build-library``, whose library then becomes a part
of the package. Without it, the library of the system is used, which ``pkg-config`` has to know.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

here = Path(__file__).resolve().parent
bundled = os.environ.get("SHARED_BREAKER_LIBRARY")


def version():
    """Return the version, which stands in the Swift sources and in nothing else."""
    info = here / "PKG-INFO"  # of a source distribution
    if info.exists():
        return re.search(r"^Version: (.+)$", info.read_text(), re.MULTILINE)[1]
    source = (here.parents[1] / "Breaker/SharedBreaker/SharedStore.swift").read_text()
    found = re.search(r'static let version = "([^"]+)"', source)
    return found[1] if found else sys.exit("setup.py: the version is not where it was")


def flags(option):
    """Return what pkg-config says of the library of the system."""
    try:
        words = subprocess.run(
            ["pkg-config", option, "sharedbreaker"], check=True, capture_output=True, text=True)
        return words.stdout.split()
    except (OSError, subprocess.CalledProcessError):
        sys.exit(
            "setup.py: there is no libsharedbreaker to build shared-breaker with: install a wheel "
            "instead, or install libsharedbreaker, or build it with scripts/build-library of "
            "SharedBreaker and name its directory in SHARED_BREAKER_LIBRARY")


class BuildWithLibrary(build_ext):
    """Puts the library beside the extension."""

    def run(self):
        self.set_library()
        super().run()
        if bundled:
            place = Path(self.build_lib, "shared_breaker")
            shutil.copy(Path(bundled, "lib", "libsharedbreaker.so.1"), place)

    def set_library(self):
        extension = self.extensions[0]
        if bundled:
            extension.include_dirs.append(os.path.join(bundled, "include"))
            extension.extra_link_args += [
                f"-L{bundled}/lib", "-lsharedbreaker", "-Wl,-rpath,$ORIGIN"]
        else:
            extension.extra_compile_args += flags("--cflags")
            extension.extra_link_args += flags("--libs")


# Calling a function costs half as much with vectorcall, which the limited API has since 3.12. So 3.11
# has a wheel of its own, and one wheel is for 3.12 and all that come after it.
limited = sys.version_info >= (3, 12)
extension = Extension(
    "shared_breaker._extension",
    sources=sorted(str(path.relative_to(here)) for path in here.glob("extension/*.c")),
    depends=["extension/extension.h"],
    define_macros=[("Py_LIMITED_API", "0x030C0000")] if limited else [],
    py_limited_api=limited,
    extra_compile_args=[
        "-O2", "-g0", "-std=gnu11", "-fvisibility=hidden", "-Wall", "-Wextra",
        "-Wno-unused-parameter", "-Wno-missing-field-initializers", "-Wno-cast-function-type",
    ],
    extra_link_args=["-s", "-pthread"],
)

setup(
    version=version(),
    ext_modules=[extension],
    cmdclass={"build_ext": BuildWithLibrary},
    options={"bdist_wheel": {"py_limited_api": "cp312"}} if limited else {},
)
