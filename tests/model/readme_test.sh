#!/usr/bin/env bash
# Passes if the README's first command prints the lines that the README says, with the real model.
set -euo pipefail
model="${MP_MODEL:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/mp/models/all-MiniLM-L6-v2}"
if [[ ! -e "$model/config.json" ]]; then
  echo "the model is not there: run ./tools/test"
  exit 1
fi
readme=$1 program=$2
line=$(grep -F '$ ./tools/mp embed' "$readme")
expected=$(grep -F -A3 '$ ./tools/mp embed' "$readme" | tail -n 3)
eval "arguments=(${line#*./tools/mp })"
actual=$("$program" "${arguments[@]}" "--model=$model" 2>closing)
if [[ "$actual" != "$expected" ]]; then
  echo "printed:" && echo "$actual" && echo "the README says:" && echo "$expected"
  exit 1
fi
grep -q '^mp embed: 12 sentences (134 tokens) in ' closing
