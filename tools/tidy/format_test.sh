#!/usr/bin/env bash
# Holds the C++ files of the checkout that this test was built from against .clang-format.
set -euo pipefail
formatter=clang-format-14
if ! command -v "$formatter" >/dev/null; then
  echo "mp: $formatter is missing: apt-get install $formatter" >&2
  exit 1
fi
# The tree is no input of this target: it is found through the link to a file at its top.
cd "$(dirname "$(readlink -f WORKSPACE)")"
find mp tests third_party tools -type f \
  '(' -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' ')' -print0 |
  xargs -0 --no-run-if-empty "$formatter" --dry-run -Werror
