#!/usr/bin/env bash
# Every defect of mutants.txt has its place in the sources, once, and one without is told by name.
set -euo pipefail
tree=$(dirname "$(readlink -f WORKSPACE)")

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

out=$("$tree/tools/mutants" --check) || fail "$out"
count=${out%% *}
((count >= 50)) || fail "$count defects, fewer than 50"
[[ $("$tree/tools/mutants" --list --only=core | wc -l) -gt 10 ]] || fail "--only finds nothing"

(($("$tree/tools/mutants" --generate --list | wc -l) > 1000)) || fail "--generate makes few"

mkdir -p "$TEST_TMPDIR/copy/tools" "$TEST_TMPDIR/copy/mp"
cp "$tree/tools/mutants" "$tree/tools/mutation.py" "$TEST_TMPDIR/copy/tools/"
echo "one two two" >"$TEST_TMPDIR/copy/mp/file.cc"
for place in one two three; do
  printf '# Head\n\n@ a name | mp/file.cc | host\n- %s\n+ four\n' $place \
    >"$TEST_TMPDIR/copy/tools/mutants.txt"
  if [[ $place == one ]]; then
    "$TEST_TMPDIR/copy/tools/mutants" --check >/dev/null || fail "a place that is there"
  elif out=$("$TEST_TMPDIR/copy/tools/mutants" --check 2>&1); then
    fail "$place: $out"
  else
    [[ $out == *"a name: mp/file.cc has its place"* ]] || fail "$out"
  fi
done
