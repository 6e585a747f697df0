#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unpacks oneDNN's headers and library from two pinned PyPI wheels, whose hashes are checked, into .cache/onednn, which CMake
looks into. Does nothing when they are there."""
import hashlib
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".cache/onednn"
WHEELS = {  # requirement: SHA-256
    "onednn-cpu-gomp==2023.2.0": "2f22a54d6a890ed14bfa185d42a4be65d8b5b1df85dc1f0f3a9abe31620416fb",
    "onednn-devel-cpu-gomp==2023.2.0": "9763c69e8c907e119056bd52ad918ca84ac9ba939d130a99dfa95ccca3e5e284",
}


def wanted(member):
    """The path of a wheel's file in the folder, or nothing: headers, licences, and the library once, as programs name it."""
    _, data, path = member.partition(".data/data/")
    return path if data and (path.startswith(("include/", "share/")) or path == "lib/libdnnl.so.3") else None


def main():
    stamp = FOLDER / "wheels"
    pins = "".join(f"{requirement} {digest}\n" for requirement, digest in WHEELS.items())
    if stamp.is_file() and stamp.read_text() == pins:
        return
    print("fetching oneDNN", file=sys.stderr)
    FOLDER.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER.parent) as temporary:
        fresh = pathlib.Path(temporary) / "onednn"
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "-d",
                        temporary, *WHEELS], check=True)
        wheels = {hashlib.sha256(p.read_bytes()).hexdigest(): p for p in pathlib.Path(temporary).glob("*.whl")}
        for requirement, digest in WHEELS.items():
            if digest not in wheels:
                raise SystemExit(f"{requirement}: no downloaded wheel has the SHA-256 {digest}, but {', '.join(sorted(wheels))}")
            with zipfile.ZipFile(wheels[digest]) as archive:
                for member in archive.namelist():
                    if path := wanted(member):
                        (fresh / path).parent.mkdir(parents=True, exist_ok=True)
                        (fresh / path).write_bytes(archive.read(member))
        (fresh / "wheels").write_text(pins)
        shutil.rmtree(FOLDER, ignore_errors=True)
        fresh.rename(FOLDER)


if __name__ == "__main__":
    main()
