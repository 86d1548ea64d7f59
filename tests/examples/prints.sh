#!/usr/bin/env bash
# Passes if the program given first exits 0 and prints exactly the line given second.
set -euo pipefail
actual=$("$1")
if [[ "$actual" != "$2" ]]; then
  echo "printed: $actual"
  echo "expected: $2"
  exit 1
fi
