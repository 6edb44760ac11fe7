#!/usr/bin/env bash
# Downloads the source package of kafka-python, whose tests the compatibility suite runs, checks it and unpacks it into
# $ODRADEK_CLIENT_TESTS (default .cache/client-tests). Does nothing if it is already there. Exits 1 with the reason if it
# cannot be downloaded.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

NAME=kafka_python-3.0.12
PIN="kafka-python==3.0.12 --hash=sha256:4ccda3616b9aa5c353d74a97f2770d6cd1b950890d77ab0e8890e09a48eeed65"
TESTS="${ODRADEK_CLIENT_TESTS:-$ROOT/.cache/client-tests}"

[ -d "$TESTS/$NAME" ] && exit 0
if command -v uv >/dev/null 2>&1; then pip=(uv run --quiet --no-project --with pip --with setuptools --with wheel python -m pip)
elif [ -x "$ROOT/.venv-uv/bin/uv" ]; then pip=("$ROOT/.venv-uv/bin/uv" run --quiet --no-project --with pip --with setuptools --with wheel python -m pip)
else pip=(python3 -m pip)
fi
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
echo "$PIN" >"$work/pin.txt"
say "fetching the source of $NAME"
"${pip[@]}" download --quiet --disable-pip-version-check --require-hashes --no-deps --no-build-isolation \
  --no-binary kafka-python --dest "$work" --requirement "$work/pin.txt" \
  || { say "NO CLIENT TESTS: the source of $NAME cannot be had"; exit 1; }
mkdir -p "$TESTS"
tar -xzf "$work/$NAME.tar.gz" -C "$work"
mv "$work/$NAME" "$TESTS/$NAME"
