#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws a line of text into a picture, compiles the PP-OCRv4 recogniser, and reads the picture back: with Tenon and, as a
second opinion, with ONNX Runtime. Shows what each stage of the compiler did on the way."""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from PIL import Image, ImageDraw, ImageFont

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from fetch_models import cache_folder  # noqa: E402

TENON = str(ROOT / "build/bin/tenon")
FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
HEIGHT = 48


def draw(text):
    """The picture as the recogniser wants it: 1 x 3 x 48 x width, BGR, values in [-1, 1]."""
    font = ImageFont.truetype(FONT, 34)
    width = max(160, (int(font.getlength(text)) + 24 + 15) // 16 * 16)
    picture = Image.new("RGB", (width, HEIGHT), "white")
    ImageDraw.Draw(picture).text((10, 3), text, font=font, fill="black")
    pixels = np.asarray(picture, dtype=np.float32)[:, :, ::-1]
    return picture, ((pixels / 255 - 0.5) / 0.5).transpose(2, 0, 1)[None].copy()


def decode(scores, alphabet):
    """Greedy CTC: the best class at each step, repeats and blanks dropped."""
    best = scores[0].argmax(axis=1)
    kept = [c for i, c in enumerate(best) if c != 0 and (i == 0 or c != best[i - 1])]
    return "".join(alphabet[c] for c in kept)


def alphabet_of(model):
    characters = next(p.value for p in model.metadata_props if p.key == "character").splitlines()
    return ["", *characters, " "]


def stage_sizes(folder):
    for path in sorted(pathlib.Path(folder).glob("*.tenon")):
        text = path.read_text()
        yield path.stem, len(text), text.count("\nfn @"), text.count("\nprimfunc @")


def run(*command):
    result = subprocess.run([TENON, *map(str, command)], text=True, capture_output=True)
    if result.returncode:
        raise SystemExit(result.stderr or result.stdout)
    return result.stdout


def main():
    text = sys.argv[1] if len(sys.argv) > 1 else "Hello, Tenon 2026"
    model_path = cache_folder() / "ocr_rec.onnx"
    model = onnx.load(model_path)
    alphabet = alphabet_of(model)
    missing = sorted(set(text) - set("".join(alphabet)))
    if missing:
        raise SystemExit(f"the recogniser's alphabet has no {' '.join(missing)!r}; try another TEXT")
    picture, pixels = draw(text)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        out = ROOT / "build/demo"
        out.mkdir(exist_ok=True)
        picture.save(out / "picture.png")
        np.savez(folder / "in.npz", x=pixels)
        shape = "x:[" + ",".join(map(str, pixels.shape)) + "]"
        artifact = out / "recogniser.so"
        print(f"picture    {out.relative_to(ROOT)}/picture.png, {picture.width} x {picture.height}")
        report = json.loads(run("compile", model_path, "-o", artifact, "--input-shapes", shape, "--dump-passes", folder / "stages", "--json"))
        print("\nstage                                    text bytes   functions   kernels")
        for stage, size, functions, kernels in stage_sizes(folder / "stages"):
            print(f"  {stage:<36} {size:>12,} {functions:>11} {kernels:>9}")
        ms = report["ms"]
        print(f"\ncompiled   {ms['total']:.0f} ms (import {ms['import']:.0f}, passes {ms['passes']:.0f}, lower {ms['lower']:.0f}, "
              f"codegen {ms['codegen']:.0f}, link {ms['link']:.0f}): {report['kernels']} kernels, "
              f"{report['bytes'] / 1e6:.1f} MB, arena {report['memory']['arena_bytes'] / 1e6:.2f} MB")
        run("run", artifact, "-i", folder / "in.npz", "-o", folder / "out.npz")
        ours = next(iter(np.load(folder / "out.npz").values()))
        bench = json.loads(run("bench", artifact, "-i", folder / "in.npz", "--json"))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model_path), options, providers=["CPUExecutionProvider"])
    theirs = session.run(None, {"x": pixels})[0]
    times = []
    for _ in range(12):
        start = time.perf_counter()
        session.run(None, {"x": pixels})
        times.append(1e3 * (time.perf_counter() - start))
    read, second = decode(ours, alphabet), decode(theirs, alphabet)
    print(f"drawn      {text}")
    print(f"Tenon      {read}   ({bench['latency_ms']['min']:.1f} ms, 1 thread)")
    print(f"ONNX RT    {second}   ({min(times):.1f} ms, 1 thread)")
    print(f"largest difference of a score: {np.abs(ours - theirs).max():.2g}")
    return 0 if read == second else 1


if __name__ == "__main__":
    sys.exit(main())
