#!/usr/bin/env bash
# On a machine with one NVIDIA GPU and vLLM, under 8 minutes: prints the block of docs/benchmarks.md, section GPU.
# Run: benchmarks/gpu_check.sh [train.py overrides for every step, for example model.path=runs/models/household_warmstart]
# PYTHON chooses the interpreter; --device cpu as the first argument rehearses the steps without a GPU (no sleep).
set -uo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-.venv/bin/python}
[[ -x $PYTHON ]] || PYTHON=python
DEVICE=cuda
if [[ ${1:-} == --device ]]; then
  DEVICE=${2:?--device needs cuda or cpu}
  shift 2
fi
if [[ $DEVICE == cuda ]] && ! nvidia-smi -L >/dev/null 2>&1; then
  echo "gpu_check: this machine has no NVIDIA GPU (nvidia-smi -L found none); nothing was measured" >&2
  exit 2
fi

ACCELERATOR=gpu
[[ $DEVICE == cuda ]] || ACCELERATOR=cpu
OUT=$(mktemp -d)
trap 'rm -rf "$OUT"' EXIT
ALL=(experiment=household_demo model=tiny panel=none validate_first=false data.sizes.groups=4
  "trainer.accelerator=$ACCELERATOR" "paths.root=$OUT" "$@")
failed=0

step() { # what, seconds, arguments of gpu_check.py: one row of the table, and the log of a failure
  local what=$1 limit=$2
  shift 2
  if ! timeout "$limit" "$PYTHON" benchmarks/gpu_check.py --device "$DEVICE" --what "$what" "$@" >"$OUT/row" 2>"$OUT/log"; then
    failed=1
    tail -n 25 "$OUT/log" >&2
    grep -q "^| $what" "$OUT/row" || echo "| $what | FAILED, see the log | | |" >"$OUT/row"
  fi
  grep "^| $what" "$OUT/row"
}

if [[ $DEVICE == cuda ]]; then nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader | head -n 1; fi
"$PYTHON" -c 'import torch; print("torch", torch.__version__)'
echo
echo "| step | result | peak of torch's memory | seconds |"
echo "|---|---|---|---|"
step "parity fp32" 80 parity gate=fp32 engine.dtype=float32 "${ALL[@]}"
step "parity bf16" 80 parity gate=bf16 engine.dtype=bfloat16 trainer.precision=bf16-mixed "${ALL[@]}"
step "two iterations, single" 120 fit strategy=single trainer.devices=1 trainer.max_epochs=2 "${ALL[@]}"
step "two iterations, fsdp2" 120 fit strategy=fsdp2 trainer.devices=1 trainer.max_epochs=2 "${ALL[@]}"
[[ $DEVICE != cuda ]] || step "vLLM sleeps and wakes" 80 sleep engine.sleep=true "${ALL[@]}"
exit "$failed"
