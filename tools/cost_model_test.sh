#!/usr/bin/env bash
# The cost model fits what it was not fitted on, prints a row for each number of GPUs, and its fit
# finds the lines that made the points.
set -euo pipefail
cd "$(dirname "$0")"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

out=$(./cost_model.py --check) || fail "$out"
for gpus in 2 4 6 8; do
  count=$(grep -cE "^ +$gpus  " <<<"$out") || true
  [[ $count == 5 ]] || fail "$count rows for $gpus GPUs, not 5: $out"
done
grep -qE '^ +8 .* 256 KiB 256 KiB$' <<<"$out" || fail "not the default of route.cc: $out"

python3 - <<'END'
import cost_model

line = [(x, 5 + 0.25 * x) for x in (1, 2, 4, 8, 16, 32)]
latency, slope = cost_model.fit_line(line)
assert abs(latency - 5) < 1e-9 and abs(slope - 0.25) < 1e-9, (latency, slope)
bent = [(x, 20 + x if x <= 8 else 4 + 3 * x) for x in (1, 2, 4, 8, 16, 32, 64)]
pieces = cost_model.fit(bent, bends=True)
for x, us in bent:
    assert abs(cost_model.time_of(pieces, x) - us) < 1e-6, (x, us, pieces)
assert cost_model.wire_bytes(800, 8) == 1400
model = cost_model.Model()
for link in cost_model.LINKS:
    for gpus in (2, 4, 6, 8):
        size = model.crossing(gpus, link, replayed=True)
        assert model.fold_us(size, gpus, link, True) <= model.nccl_us(size, gpus, link, True)
        for route in (model.fold_us, model.nccl_us):
            times = [route(size, gpus, link, False) for size in cost_model.sizes()]
            assert times == sorted(times), (link, gpus, times)
END
echo "PASSED"
