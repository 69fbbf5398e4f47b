"""Prints what is inside a release as an SPDX document: its files, and what they were built with or need.

    release-contents.py VERSION COMMIT LIBRARY DIRECTORY

LIBRARY is what scripts/build-library --static-sqlite has printed, and DIRECTORY has the files of the release.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

version, commit, library, directory = sys.argv[1:]
created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"])))


def output(*command):
    """Return what a command prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def debian(package):
    """Return the installed version of a Debian package."""
    return output("dpkg-query", "-W", "-f", "${Version}", package)


def identifier(text):
    """Return a text as SPDX permits it in an identifier."""
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", text)


def package(name, its_version, licence, supplier, purl=None):
    """Describe a package."""
    described = {
        "SPDXID": identifier(name),
        "name": name,
        "versionInfo": its_version,
        "supplier": supplier,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": licence,
        "licenseDeclared": licence,
        "copyrightText": "NOASSERTION",
    }
    if purl:
        described["externalRefs"] = [{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": purl,
        }]
    return described


swift = re.search(r"Swift version (\S+)", output("swift", "--version"))[1]
archive = os.path.realpath(output("scripts/parts/clang", "-print-file-name=libstdc++.a").strip())
gcc_package = output("dpkg-query", "-S", archive).split(":")[0]
gcc = debian(gcc_package)
sqlite = debian("libsqlite3-dev")
hiredis = debian("libhiredis-dev")
openssl = debian("libssl-dev")
own = Path(library, "lib", "libsharedbreaker.so.1").read_bytes()
if not re.search(rb"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d [0-9a-f]{60}", own):
    sys.exit("release-contents: the library for the wheels has no SQLite inside")

product = package("shared-breaker", version, "MIT", "Organization: SharedBreaker")
product["sourceInfo"] = f"built from the commit {commit}"
parts = {
    "STATIC_LINK": [
        package("swift-standard-library", swift, "Apache-2.0 WITH Swift-exception", "Organization: swift.org"),
        package("libstdc++", gcc, "GPL-3.0-or-later WITH GCC-exception-3.1", "Organization: Debian",
                f"pkg:deb/debian/{gcc_package}@{gcc}"),
        package("sqlite-inside-the-wheels", sqlite, "blessing", "Organization: Debian",
                f"pkg:deb/debian/libsqlite3-dev@{sqlite}"),
    ],
    "DYNAMIC_LINK": [
        package("libsqlite3", sqlite, "blessing", "Organization: Debian", f"pkg:deb/debian/libsqlite3-0@{sqlite}"),
        package("libhiredis", hiredis, "BSD-3-Clause", "Organization: Debian", f"pkg:deb/debian/libhiredis0.14@{hiredis}"),
        package("libssl", openssl, "Apache-2.0", "Organization: Debian", f"pkg:deb/debian/libssl3@{openssl}"),
    ],
}
relations = [{
    "spdxElementId": "SPDXRef-DOCUMENT",
    "relationshipType": "DESCRIBES",
    "relatedSpdxElement": product["SPDXID"],
}]
for kind, found in parts.items():
    relations += [{
        "spdxElementId": product["SPDXID"],
        "relationshipType": kind,
        "relatedSpdxElement": part["SPDXID"],
    } for part in found]

files = []
root = Path(directory)
for path in sorted(root.iterdir()):
    if path.suffix in (".deb", ".whl", ".gz"):
        content = path.read_bytes()
        files.append({
            "SPDXID": identifier("file-" + path.name),
            "fileName": "./" + path.name,
            "checksums": [
                {"algorithm": "SHA1", "checksumValue": hashlib.sha1(content).hexdigest()},
                {"algorithm": "SHA256", "checksumValue": hashlib.sha256(content).hexdigest()},
            ],
            "licenseConcluded": "MIT",
            "copyrightText": "NOASSERTION",
        })
        relations.append({
            "spdxElementId": product["SPDXID"],
            "relationshipType": "CONTAINS",
            "relatedSpdxElement": files[-1]["SPDXID"],
        })
if not files:
    sys.exit(f"release-contents: there is nothing to install in {directory}")

json.dump({
    "spdxVersion": "SPDX-2.3",
    "dataLicense": "CC0-1.0",
    "SPDXID": "SPDXRef-DOCUMENT",
    "name": f"shared-breaker-{version}",
    "documentNamespace": f"https://spdx.org/spdxdocs/shared-breaker-{version}-{commit}",
    "creationInfo": {"created": created, "creators": ["Tool: scripts/release"]},
    "packages": [product, *parts["STATIC_LINK"], *parts["DYNAMIC_LINK"]],
    "files": files,
    "relationships": relations,
}, sys.stdout, indent=1)
print()
