"""`mp embed` beside PyTorch and ONNX Runtime: tools/embed_peers, which see.

    python3 compare.py MP MODEL_FOLDER [--lines N] [--rounds N] [--threads N]

Each round runs every program once, so that what the machine does meanwhile meets all of them; what
is printed is the median over the rounds, and ratios are taken within a round. A program's time is
of its own clock: from lines to embeddings, tokenizing included, loading not. PyTorch and ONNX
Runtime have mp's batches, and batches of 32 texts of about one length as well; the faster counts.
Memory is the most that the process ever had resident. Ends with 1 where the results differ.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
LEAST_COSINE = 0.9999
# Ratio, of sentences/s, and the goal.
GOALS = [
    ("2 ranks x 1 thread over 1 rank x 2 threads", "mp 2x1", "mp 1x2", 0.95),
    ("mp 2 x 1 over PyTorch", "mp 2x1", "PyTorch", 1.3),
    ("mp 2 x 1 over ONNX Runtime", "mp 2x1", "ONNX Runtime", 1.0),
]


def peak_and_output(command):
    """Peak resident KiB, and stdout."""
    read, write = os.pipe()
    process = subprocess.Popen(command, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    with os.fdopen(read) as pipe:
        output = pipe.read()
    errors = process.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"embed_peers: {' '.join(command)} failed:\n{errors}")
    return usage.ru_maxrss, output


def run(command, report):
    """Of one run: seconds, KiB at the peak."""
    peak, output = peak_and_output(command)
    answer = json.loads(output)
    report.setdefault("version", answer.get("version", ""))
    return answer["seconds"], peak


def programs(options, lines, folder):
    """By name: what to run, the fastest of which counts."""
    def mp(ranks):
        return [[options.mp, "embed", "--json", "--force", "--backend=host", f"--ranks={ranks}",
                 f"--threads={options.threads}", f"--model={options.model}",
                 f"--out={folder}/mp{ranks}.npy", lines]]

    def peer(file, out):
        return [[sys.executable, f"{HERE}/{file}", options.model, lines, f"{folder}/{out}.npy",
                 str(options.threads), batch] for batch in ("mp", "32")]

    return {"mp 2x1": (mp(2), "mp2"), "mp 1x2": (mp(1), "mp1"),
            "PyTorch": (peer("torch_peer.py", "torch"), "torch"),
            "ONNX Runtime": (peer("onnx_peer.py", "onnx"), "onnx")}


def least_cosines(folder, outs):
    rows = {out: numpy.load(f"{folder}/{out}.npy") for out in outs}
    first = rows[outs[0]]
    return {out: float((first * rows[out]).sum(axis=1).min()) for out in outs[1:]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mp")
    parser.add_argument("model")
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lines = folder + "/lines.txt"
        with open(lines, "wb") as file:
            subprocess.run([sys.executable, f"{HERE}/lines.py", options.model, str(options.lines)],
                           stdout=file, check=True)
        all_programs = programs(options, lines, folder)
        speeds = {name: [] for name in all_programs}
        peaks = {name: [] for name in all_programs}
        report = {name: {} for name in all_programs}
        for number in range(options.rounds):
            for name, (commands, _) in all_programs.items():
                runs = [run(command, report[name]) for command in commands]
                seconds, peak = min(runs)
                speeds[name].append(options.lines / seconds)
                peaks[name].append(peak)
            print(f"round {number + 1}: " + ", ".join(
                f"{name} {values[-1]:.0f}/s" for name, values in speeds.items()), flush=True)
        cosines = least_cosines(folder, [out for _, out in all_programs.values()])
    print(f"\n{options.lines} lines, {options.threads} threads, medians of {options.rounds} rounds")
    print(f"{'':<24}{'sentences/s':>12}{'peak MiB':>10}")
    for name in all_programs:
        title = f"{name} {report[name]['version']}".strip()
        print(f"{title:<24}{statistics.median(speeds[name]):>12.0f}"
              f"{statistics.median(peaks[name]) / 1024:>10.0f}")
    print()
    for what, ours, other, goal in GOALS:
        ratios = [a / b for a, b in zip(speeds[ours], speeds[other])]
        print(f"{what}: {statistics.median(ratios):.2f} "
              f"({min(ratios):.2f} .. {max(ratios):.2f}), goal {goal}")
    memory = statistics.median(peaks["mp 2x1"]) / statistics.median(peaks["PyTorch"])
    print(f"peak memory of mp 2 x 1 over PyTorch's: {memory:.2f}, goal below 1")
    print("least cosine between mp 2 x 1 and " + ", ".join(
        f"{out}: {cosine:.7f}" for out, cosine in cosines.items()))
    if min(cosines.values()) < LEAST_COSINE:
        sys.exit("embed_peers: the results differ")


main()
