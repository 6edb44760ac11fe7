#!/usr/bin/env bash
# Makes sure there is kcat, one of the clients of the compatibility suite: uses the system's, else installs it with apt
# if that is allowed, else prints a warning. Always exits 0; the last line on stdout is "kcat: PATH" or "no kcat".
set -euo pipefail
. "$(dirname "$0")/lib.sh"

if ! command -v kcat >/dev/null 2>&1; then
  say "installing kcat with apt, one of the clients that are compared (a few seconds)"
  if ! apt_install kcat; then
    say "NO KCAT: its cases will not run. To have it: install it (Debian: apt-get install kcat)."
    echo "no kcat"
    exit 0
  fi
fi
echo "kcat: $(command -v kcat)"
