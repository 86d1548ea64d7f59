#!/usr/bin/env python3
"""What an AllReduce costs on GPUs by each route of mp/cuda/route.h, and where the routes cross.

    tools/cost_model.py [--check]

A model of latencies and bandwidths: no GPU is asked, and where there is one, a measurement is worth
more. Every number is either published (with its source) or an assumption, and says which. The
curves are fitted on every second published row; the error printed is on the other rows. --check
ends with 1 where that error is more than 15 %.
"""

import os
import re
import sys

KIB, MIB = 1 << 10, 1 << 20

# AllReduce on 8 x H100 with NVLink 4 and NVSwitch, bf16 or f16, replayed from a graph: bytes, us.
# Up to 256 KiB SGLang#22734, above vLLM#42324 (a range by its middle).
NCCL_8 = [(1 * KIB, 17), (4 * KIB, 17.0), (16 * KIB, 17.8), (32 * KIB, 19.6), (64 * KIB, 19.9),
          (256 * KIB, 20.3), (512 * KIB, 22.4), (1 * MIB, 26), (2 * MIB, 37), (4 * MIB, 50),
          (8 * MIB, 76), (16 * MIB, 121), (64 * MIB, 316)]
# Kernels that read and write their peers' memory, each a slice: what a sliced fold does, with flags
# in memory where mp has events. PyTorch's symmetric memory, two-shot, vLLM#42324.
TWO_SHOT_8 = [(512 * KIB, 15), (1 * MIB, 17), (2 * MIB, 22), (4 * MIB, 37), (8 * MIB, 65),
              (16 * MIB, 125), (64 * MIB, 468)]
# The latency of a kernel that reads its peers, by GPUs: SGLang#2904.
ONE_SHOT_US = {2: 3.7, 8: 5.9}
# From where on vLLM leaves its own such kernels, by GPUs: its all_reduce_utils.py.
VLLM = {2: 64 * MIB, 4: 32 * MIB, 6: 512 * KIB, 8: 256 * KIB}

# The host's part of an AllReduce of 8 GPUs that no graph replays, in us; NCCL launches a kernel for
# each GPU.  23 to 34 by release: nccl#2094.
NCCL_HOST_8 = 28.5
# A fold launches one, 4 to 6 through the runtime (susun-blog.com, an order of magnitude), n records
# and 2 (n - 1) waits.  A record or a wait takes a tenth of a launch: an assumption.
LAUNCH, EVENT = 5.0, 0.5
# Those kernels meet by flags in memory, mp's by events before and after: an assumption of what each
# takes more than a flag.
EVENT_MORE = 1.5

# GB/s per GPU and direction, what copies reach, and us a hop beyond NVLink's.
LINKS = {
    # 371 to 377 one way: NVIDIA/nccl#1264.
    "NVLink 4": (375.0, 0.0),
    # 16 lanes at 16 GT/s are 31.5 (PCI-SIG); four fifths of it arrive, and a switch or a root
    # complex is on the way: assumptions.
    "PCIe 4": (25.0, 1.0),
}


def wire_bytes(size, gpus):
    """Over each GPU's link and direction, in a ring or two-shot."""
    return 2 * (gpus - 1) / gpus * size


def fit_line(points):
    """latency, us a byte: least squares of relative errors of latency + x * slope."""
    s1 = sx = sxx = sy = sxy = 0.0
    for x, y in points:
        weight = 1 / y**2
        s1, sx, sxx = s1 + weight, sx + weight * x, sxx + weight * x * x
        sy, sxy = sy + weight * y, sxy + weight * x * y
    slope = (s1 * sxy - sx * sy) / (s1 * sxx - sx * sx)
    return (sy - slope * sx) / s1, slope


def time_of(pieces, x):
    """`pieces`: lines as of fit_line, and between two of them where the second takes over."""
    latency, slope = pieces[0] if len(pieces) == 1 or x < pieces[1] else pieces[2]
    return latency + slope * x


def squared_error(pieces, points):
    return sum((time_of(pieces, x) / y - 1) ** 2 for x, y in points)


def fit(points, bends):
    """One line, or two with the best place to change over, three points at least on either side."""
    if not bends:
        return [fit_line(points)]
    best = None
    for i in range(3, len(points) - 2):
        pieces = [fit_line(points[:i]), points[i - 1][0], fit_line(points[i - 1:])]
        if best is None or squared_error(pieces, points) < squared_error(best, points):
            best = pieces
    return best


class Curve:
    """A published table, fitted on its even rows."""

    def __init__(self, name, table, gpus, bends):
        self.name, self.gpus = name, gpus
        points = [(wire_bytes(size, gpus), us) for size, us in table]
        self.pieces = fit(points[::2], bends)
        self.errors = [abs(time_of(self.pieces, x) / y - 1) for x, y in points[1::2]]

    def error(self):
        return sum(self.errors) / len(self.errors)

    def latency(self):
        return self.pieces[0][0]

    def gigabytes_a_second(self):
        return 1e-3 / self.pieces[-1][1]


class Model:
    """Times of one of many AllReduces, one behind the other: the longer of the host's part, where no
    graph replays them, and the GPUs'."""

    def __init__(self):
        self.nccl = Curve("NCCL", NCCL_8, 8, bends=True)
        self.kernels = Curve("kernels over peer pointers, sliced", TWO_SHOT_8, 8, bends=False)

    def nccl_us(self, size, gpus, link, replayed):
        """A ring: a launch, and 2 (n - 1) hops; slower links take longer for each byte."""
        bandwidth, hop = LINKS[link]
        hops = 2 * (gpus - 1)
        ring_hop = (self.nccl.latency() - LAUNCH) / 14
        x = wire_bytes(size, gpus) * LINKS["NVLink 4"][0] / bandwidth
        device = time_of(self.nccl.pieces, x) - (14 - hops) * ring_hop + hops * hop
        return device if replayed else max(device, NCCL_HOST_8 * gpus / 8)

    def fold_us(self, size, gpus, link, replayed):
        """By one GPU up to 64 KiB, above each its slice."""
        bandwidth, hop = LINKS[link]
        per_gpu = (ONE_SHOT_US[8] - ONE_SHOT_US[2]) / 6
        per_byte = 1e-3 / min(self.kernels.gigabytes_a_second(), bandwidth)
        if size <= 64 * KIB:
            device = ONE_SHOT_US[8] + (gpus - 1) * size * per_byte
        else:
            device = self.kernels.latency() + wire_bytes(size, gpus) * per_byte
        device += 2 * (EVENT_MORE + hop) - (8 - gpus) * per_gpu
        host = LAUNCH + EVENT * (gpus + 2 * (gpus - 1))
        return device if replayed else max(device, host)

    def crossing(self, gpus, link, replayed):
        """The last power of two from which on NCCL is faster than a fold."""
        best = 0
        for size in (KIB << i for i in range(17)):
            if self.fold_us(size, gpus, link, replayed) <= self.nccl_us(size, gpus, link, replayed):
                best = size
        return best


def text(size):
    if size == 0:
        return "none"
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"


def defaults():
    """GPUs and bytes, as mp/cuda/route.cc has them."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(root, "mp/cuda/route.cc"), encoding="utf-8") as file:
        source = file.read()
    table = re.search(r"kLimits\[\] = \{(.*)\};", source).group(1)
    found = re.findall(r"\{(\d+), (\d+) << (\d+)\}", table)
    return {int(gpus): int(bytes_) << int(shift) for gpus, bytes_, shift in found}


def main(check):
    model, failed = Model(), False
    print("Fitted on every second published row, 8 GPUs, NVLink 4:")
    for curve in (model.nccl, model.kernels):
        print(f"  {curve.name}: {curve.latency():.1f} us + bytes on a link / "
              f"{curve.gigabytes_a_second():.0f} GB/s; error on the other rows: mean "
              f"{curve.error():.0%}, worst {max(curve.errors):.0%}")
        failed = failed or curve.error() > 0.15
    print("\nThe largest size that is folded no slower than NCCL takes, called or replayed from a "
          "graph:\n  GPUs    NVLink 4, called  replayed    PCIe 4, called  replayed  route.cc  vLLM")
    set_now = defaults()
    for gpus in (2, 4, 6, 8):
        row = f"  {gpus:>4}"
        for link, width in (("NVLink 4", 20), ("PCIe 4", 18)):
            row += f"{text(model.crossing(gpus, link, False)):>{width}}"
            row += f"{text(model.crossing(gpus, link, True)):>10}"
        now = next(size for most, size in sorted(set_now.items()) if gpus <= most)
        print(row + f"{text(now):>10}{text(VLLM[gpus]):>8}")
    for link in LINKS:
        for replayed in (False, True):
            print(f"\n{link}, {'replayed' if replayed else 'called'}: us of one AllReduce, folded / "
                  "NCCL")
            print("  GPUs" + "".join(f"{text(size):>14}" for size in sizes()))
            for gpus in (2, 4, 6, 8):
                print(f"  {gpus:>4}" + "".join(
                    f"{model.fold_us(s, gpus, link, replayed):>7.0f} /"
                    f"{model.nccl_us(s, gpus, link, replayed):>5.0f}" for s in sizes()))
    return 1 if check and failed else 0


def sizes():
    return [KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB]


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
