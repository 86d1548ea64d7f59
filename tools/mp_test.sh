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
unset XDG_CACHE_HOME

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
