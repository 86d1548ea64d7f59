# Shared by the scripts of this folder, which set `root` to the checkout before they source it.

die() {
  echo "mp: $*" >&2
  exit 1
}

# A folder that only this user writes to, for what outlives a run: $XDG_CACHE_HOME, $HOME/.cache
# or, when there is no such place, one below $TMPDIR. The checkout's path is part of its name.
cache_folder() {
  local key folder base="${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}"
  key=$(printf %s "$root" | sha256sum | cut -c1-16)
  folder="$base/mp/$key"
  if [[ "$base" != /* ]] || ! mkdir -p "$folder" 2>/dev/null || [[ ! -w "$folder" ]]; then
    base="${TMPDIR:-/tmp}/mp-$UID"
    mkdir -p -m 700 "$base" 2>/dev/null || true
    [[ -O "$base" && -w "$base" && ! -L "$base" ]] ||
      die "no folder to write to: set XDG_CACHE_HOME"
    folder="$base/$key"
    mkdir -p "$folder"
  fi
  echo "$folder"
}

# Bazel, which keeps its state in the cache folder $1 when there is no home.
run_bazel() {
  local cache=$1
  shift
  local startup=()
  if [[ ! -w "${HOME:-/nonexistent}" ]]; then startup=("--output_user_root=$cache/bazel"); fi
  (cd "$root" && bazel "${startup[@]}" "$@" </dev/null)
}

# The packages of the sets $@ (see tools/packages) that are not installed, one a line.
missing_packages() {
  local set package reason wanted=()
  while read -r set package reason; do
    if [[ " $* " == *" $set "* ]]; then wanted+=("$package"); fi
  done <"$root/tools/packages"
  comm -23 <(printf '%s\n' "${wanted[@]}" | sort) \
    <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null |
      sed -n 's/^installed //p' | sort)
}

# Installs what is missing of the sets $2..., and lets go of a Bazel server that has not seen it.
install_missing() {
  local cache=$1 packages as_root=(env) log
  shift
  command -v dpkg-query >/dev/null || die "this script installs Debian packages; see tools/packages"
  mapfile -t packages < <(missing_packages "$@")
  if [[ ${#packages[@]} == 0 ]]; then return; fi
  if [[ $EUID != 0 ]]; then
    as_root=(sudo -n env)
    if [[ -t 2 && -t 0 ]]; then as_root=(sudo env); fi
    "${as_root[@]}" true 2>/dev/null ||
      die "packages are missing; as root: apt-get install ${packages[*]}"
  fi
  echo "mp: installing ${packages[*]}" >&2
  log="$cache/apt.log"
  as_root+=(DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600)
  "${as_root[@]}" update >"$log" 2>&1 </dev/null || true  # an old list may do
  if ! "${as_root[@]}" install -y --no-install-recommends "${packages[@]}" >>"$log" 2>&1 </dev/null
  then
    grep '^E:' "$log" >&2 || true
    die "apt-get install ${packages[*]} failed: see $log"
  fi
  run_bazel "$cache" shutdown >/dev/null 2>&1 || true
}
