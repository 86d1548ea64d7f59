#!/usr/bin/env bash
# Proves when a CUDA toolkit is fetched for the tests, and that it appears whole or not at all, with
# a made-up pip.
set -euo pipefail
root=$PWD
work=$TEST_TMPDIR/work
mkdir -p "$work/bin" "$work/home" "$work/cache"
export HOME=$work/home PATH=$work/bin:$PATH WORK=$work
unset XDG_CACHE_HOME CUDA_HOME NCCL_HOME

cat >"$work/bin/python3" <<'FAKE'
#!/usr/bin/env bash
case "$*" in
  *--version*) ;;
  *"install"*"--require-hashes"*)
    echo "$*" >>"$WORK/installs"
    if [[ -e "$WORK/offline" ]]; then echo "ERROR: no route" >&2; exit 1; fi
    while [[ $1 != --target ]]; do shift; done
    sleep 0.2  # so that fetches at the same time overlap
    mkdir -p "$2/nvidia/cu13/include" "$2/nvidia/nccl/include" "$2/nvidia/nccl/lib"
    touch "$2/nvidia/cu13/include/cuda_runtime.h" "$2/nvidia/nccl/include/nccl.h"
    touch "$2/nvidia/nccl/lib/libnccl.so.2" ;;
esac
FAKE
printf '#!/bin/bash\necho "${MACHINE:-x86_64}"\n' >"$work/bin/uname"
chmod +x "$work/bin"/*

fail() {
  echo "line ${BASH_LINENO[0]}: $*" >&2
  exit 1
}
installs() { if [[ -e "$work/installs" ]]; then wc -l <"$work/installs"; else echo 0; fi; }
# Sets out, err and status.
fetch() {
  status=0
  (
    source "$root/tools/lib.sh"
    fetch_toolkit "$work/cache"
    echo "${CUDA_HOME:-} ${NCCL_HOME:-}"
  ) >"$work/o" 2>"$work/e" || status=$?
  out=$(cat "$work/o") err=$(cat "$work/e")
}

# Every wheel is pinned to a version and a hash.
wheels=$(grep -cE '^nvidia-[a-z0-9-]+==[0-9.]+ ' "$root/tools/toolkit.txt")
hashes=$(grep -cE '^ +--hash=sha256:[0-9a-f]{64}$' "$root/tools/toolkit.txt")
[[ $wheels -gt 0 && $hashes == "$wheels" ]] || fail "$wheels wheels, $hashes hashes"

# One that is there is used.
mkdir -p "$work/cuda/include" "$work/nccl/include"
touch "$work/cuda/include/cuda_runtime.h" "$work/nccl/include/nccl.h"
CUDA_HOME=$work/cuda NCCL_HOME=$work/nccl fetch
[[ "$out" == "$work/cuda $work/nccl" && -z "$err" && $status == 0 ]] || fail "$out $err"
cp "$work/nccl/include/nccl.h" "$work/cuda/include"
CUDA_HOME=$work/cuda fetch
[[ "$out" == "$work/cuda " && $(installs) == 0 ]] || fail "$out $err"

# What cannot be fetched is one line of pip's and one of ours, and leaves nothing.
export CUDA_HOME=$work/nowhere
toolkits="$work/home/.cache/mp/toolkits"
touch "$work/offline"
fetch
[[ -z "$out" && $status == 1 ]] || fail "$out $err $status"
said=$'*\nERROR: no route\nmp: pip install *toolkit.txt failed: see *'
[[ "$err" == "mp: fetching a CUDA toolkit"$said ]] || fail "$err"
[[ "$(ls "$toolkits")" == lock ]] || fail "left: $(ls "$toolkits")"
rm "$work/offline"

# Else it is fetched once, without NCCL's library.
before=$(installs)
for i in 1 2; do
  (source "$root/tools/lib.sh" && fetch_toolkit "$work/cache" && echo "$CUDA_HOME $NCCL_HOME") \
    >"$work/out.$i" 2>/dev/null &
done
wait
[[ $(installs) == $((before + 1)) ]] || fail "fetched $(($(installs) - before)) times"
fetch
[[ -z "$err" && $(installs) == $((before + 1)) ]] || fail "$err"
read -r cuda nccl <<<"$out"
[[ "$(cat "$work/out.1")" == "$out" && "$(cat "$work/out.2")" == "$out" ]] || fail "$out"
[[ -e "$cuda/include/cuda_runtime.h" && -e "$nccl/include/nccl.h" && ! -e "$nccl/lib" ]] ||
  fail "$(find "$toolkits")"
[[ $(ls "$toolkits" | wc -l) == 2 ]] || fail "left: $(ls "$toolkits")"

# For other machines there are no wheels.
rm -r "$toolkits"
MACHINE=aarch64 fetch
[[ "$out" == "$work/nowhere " && $status == 0 ]] || fail "$out $status"
[[ "$err" == "mp: no CUDA toolkit in $work/nowhere: "* ]] || fail "$err"
