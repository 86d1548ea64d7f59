#!/usr/bin/env bash
# Checks mp on this machine's GPUs, with programs that were built before; needs no Bazel then.
#
#   tools/gpu_check.sh --build FOLDER   builds them, where Bazel and the CUDA toolkit are
#   tools/gpu_check.sh FOLDER           runs them, in under three minutes; NCCL is found at run time
#
# Prints last "N ran, N failed", tests and the table of times as one more. Without a driver or a GPU
# that is "0 ran", and the exit status is 0.
set -euo pipefail

programs=(fidelity_test contract_test graphs_test speed)

if [[ "${1:-}" == --build && $# == 2 ]]; then
  mkdir -p "$2"
  folder=$(realpath "$2")
  cd "$(dirname "$0")/.."
  bazel build --config=opt --config=gpu "${programs[@]/#///tests/cuda/gpu:}"
  bin=$(bazel info --config=opt --config=gpu bazel-bin 2>/dev/null)
  for program in "${programs[@]}"; do
    install -m 755 "$bin/tests/cuda/gpu/$program" "$folder/"
  done
  strip "${programs[@]/#/$folder/}"
  exit
fi
if [[ $# != 1 || ! -d "$1" ]]; then
  sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi

folder=$(realpath "$1")
if [[ ! -e /dev/nvidiactl ]]; then
  echo "no NVIDIA driver on this machine: 0 ran"
  exit 0
fi
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
ran=0
failed=0
# The number of an attribute of the outermost element of a test program's report.
of_report() { sed -n "s/^<testsuites.* $2=\"\([0-9]*\)\".*/\1/p" "$1" | head -1; }

for program in "${programs[@]}"; do
  echo "== $program"
  start=$SECONDS
  status=0
  if [[ $program == speed ]]; then
    timeout 60 "$folder/$program" || status=$?
    ran=$((ran + 1))
    failed=$((failed + (status != 0)))
  else
    report="$logs/$program.xml"
    timeout 80 "$folder/$program" --gtest_brief=1 --gtest_output="xml:$report" || status=$?
    if [[ -e "$report" ]]; then
      ran=$((ran + $(of_report "$report" tests) - $(of_report "$report" disabled)))
      failed=$((failed + $(of_report "$report" failures) + $(of_report "$report" errors)))
    elif [[ $status != 0 ]]; then  # it ended before its report
      ran=$((ran + 1))
      failed=$((failed + 1))
    fi
  fi
  echo "$program: exit status $status, $((SECONDS - start)) s"
done
echo "$ran ran, $failed failed"
[[ $failed == 0 ]]
