#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory planning alone: MiniMalloc's challenging inputs with every planner, and how `auto` grows with the number of buffers.
Writes bench/results/plan.md. `plan.py --models FOLDER` adds the models of bench/models.py, those of generate_models.py in FOLDER;
this needs numpy. `plan.py --dumps DIR…` adds problems that `tenon compile --dump-plan DIR` wrote."""
import argparse
import json
import os
import pathlib
import random
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TENON = os.environ.get("TENON", str(ROOT / "build/bin/tenon"))
CAPACITY = 1048576
PLANNERS = ["exact", "auto", "hill_climb", "greedy_by_size", "greedy_by_conflicts", "best_fit_tokens", "naive"]
ROUNDS = 3  # the best time counts: the machine may be shared


def plan(problem, planner, *arguments):
    """The command's report with the best of a few times; None if there is no plan within the limits. The plan is checked."""
    with tempfile.TemporaryDirectory() as folder:
        out = str(pathlib.Path(folder) / "plan.csv")
        best = None
        for _ in range(ROUNDS):
            done = subprocess.run([TENON, "plan", str(problem), "--planner", planner, "--json", "-o", out, *arguments],
                                  text=True, capture_output=True)
            if done.returncode == 7:
                return None
            if done.returncode:
                raise SystemExit(done.stderr)
            report = json.loads(done.stdout)
            best = report if best is None or report["ms"] < best["ms"] else best
        subprocess.run([TENON, "plan", str(problem), "--check", out, *arguments], check=True, capture_output=True)
        return best


def minimalloc():
    lines = ["## MiniMalloc's challenging inputs", "", f"`tenon plan X.{CAPACITY}.csv --planner exact --capacity {CAPACITY}`; each plan passed `--check`.", "",
             "| input | buffers | lower bound | peak | optimal | steps | ms |", "|---|---|---|---|---|---|---|"]
    for path in sorted((ROOT / "bench/data/minimalloc").glob("*.csv")):
        report = plan(path, "exact", "--capacity", str(CAPACITY))
        if report is None:
            lines.append(f"| {path.name[0]} | | | not solved | | | |")
            continue
        lines.append(f"| {path.name[0]} | {report['buffers']} | {report['lower_bound_bytes']} | {report['peak_bytes']} | "
                     f"{'yes' if report['optimal'] else ''} | {report['steps']} | {report['ms']:.1f} |")
    return lines + [""]


def ratios(title, problems):
    lines = [f"## {title}", "", "Peak over lower bound, then milliseconds; without a limit.", "", "| problem | buffers | " + " | ".join(PLANNERS) + " |",
             "|---|---|" + "---|" * len(PLANNERS)]
    for name, path in problems:
        reports = [plan(path, planner) for planner in PLANNERS]
        cells = [f"{r['peak_bytes'] / max(1, r['lower_bound_bytes']):.3f}{'*' if r['optimal'] else ''}, {r['ms']:.2f}" for r in reports]
        lines.append(f"| {name} | {reports[0]['buffers']} | " + " | ".join(cells) + " |")
    return lines + ["", "`*` marks a plan that is proven optimal.", ""]


def model_paths(folder):
    """Name, path and flags for the shapes of each model that is there."""
    from models import MODELS, inputs_of, path_of, shapes_of
    for name, inputs in MODELS.items():
        path = next((p for p in (path_of(name), folder / f"{name}.onnx") if p.exists()), None)
        if path:
            yield name, path, [] if inputs is None else [a for s in shapes_of(inputs_of(name, None)) for a in ("--input-shapes", s)]


def megabytes(memory):
    return f"{memory['arena_bytes'] / 1e6:.3f}{'*' if memory['optimal'] else ''}"


def arenas(folder, dumps):
    """What compiled models reserve; leaves their problems in `dumps`."""
    lines = ["## Arenas of models", "", "Megabytes that `tenon compile` plans, kernels' workspaces included, and the lower bound of the same problem. The columns to the right leave out",
             "results that overwrite operands, and the order that needs less memory.", "",
             "| model | buffers | arena | lower bound | `--no-in-place` | `--keep-order` | both |", "|---|---|---|---|---|---|---|"]
    for name, path, shapes in model_paths(folder):
        memories = []
        for flags in ([], ["--no-in-place"], ["--keep-order"], ["--no-in-place", "--keep-order"]):
            dump = ["--dump-plan", str(dumps / name)] if not flags else []
            done = subprocess.run([TENON, "compile", str(path), "-o", str(dumps / "m.so"), "--json", *shapes, *flags, *dump], text=True, capture_output=True, check=True)
            memories.append(json.loads(done.stdout)["memory"])
        buffers = len((dumps / name / "problem.csv").read_text().splitlines()) - 1
        lines.append(f"| {name} | {buffers} | {megabytes(memories[0])} | {memories[0]['lower_bound_bytes'] / 1e6:.3f} | " +
                     " | ".join(megabytes(m) for m in memories[1:]) + " |")
    return lines + ["", "`*` marks a plan that is proven optimal for its order.", ""]


def random_problem(path, count, longest):
    """Buffers of a program of `count` steps: one begins at each step and lives up to `longest` steps."""
    rng = random.Random(count)
    rows = [f"b{i},{i},{i + 1 + rng.randrange(longest)},{64 * rng.randrange(1, 4096)}" for i in range(count)]
    path.write_text("id,lower,upper,size\n" + "\n".join(rows) + "\n")


def growth():
    lines = ["## Growth", "", "`auto` on random problems: one buffer begins at each point and lives up to 20 points, or up to a third of all.", "",
             "| buffers | short lives: ms | peak / bound | long lives: ms | peak / bound |", "|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "problem.csv"
        for count in (100, 300, 1000, 3000, 10000):
            cells = []
            for longest in (20, count // 3):
                random_problem(path, count, longest)
                report = plan(path, "auto")
                cells.append(f"{report['ms']:.2f} | {report['peak_bytes'] / report['lower_bound_bytes']:.3f}")
            lines.append(f"| {count} | " + " | ".join(cells) + " |")
    return lines + [""]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dumps", nargs="*", default=[], type=pathlib.Path, help="folders with a problem.csv")
    parser.add_argument("--models", type=pathlib.Path, help="folder with the generated models")
    arguments = parser.parse_args()
    lines = ["# Memory planning", "", "Written by `bench/plan.py`. A step is a look at one buffer.", ""] + minimalloc()
    lines += ratios("Planners on these inputs", [(p.name[0], p) for p in sorted((ROOT / "bench/data/minimalloc").glob("*.csv"))])
    with tempfile.TemporaryDirectory() as folder:
        dumps = pathlib.Path(folder)
        if arguments.models:
            lines += arenas(arguments.models, dumps)
        problems = arguments.dumps + sorted(p.parent for p in dumps.glob("*/problem.csv"))
        if problems:
            lines += ratios("Planners on models", [(p.name, p / "problem.csv") for p in problems])
    lines += growth()
    (ROOT / "bench/results/plan.md").write_text("\n".join(lines).rstrip() + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
