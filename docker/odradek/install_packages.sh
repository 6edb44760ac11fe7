#!/bin/sh
# install_packages.sh SOURCE TARGET [options of `uv pip install`]: puts Odradek and its locked dependencies into TARGET.
# If SOURCE/packages exists (docker/odradek/build.sh fills it), its packages are used and no network is needed. UV is the
# uv to use; without it, uv is installed with pip.
set -eu
source="$1" target="$2"
shift 2

if [ -d "$source/packages" ]; then
  cp -r "$source/packages" "$target"
  exit 0
fi
if [ -z "${UV:-}" ]; then
  python3 -m pip install --quiet --root-user-action=ignore uv
  UV="python3 -m uv"
fi
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$source"
$UV export --quiet --locked --no-dev --extra cli --extra metrics --no-emit-project --output-file "$work/locked.txt"
$UV pip install --quiet --link-mode=copy --target "$target" --only-binary :all: --require-hashes -r "$work/locked.txt" "$@"
$UV build --quiet --wheel --out-dir "$work"
$UV pip install --quiet --link-mode=copy --target "$target" --no-deps "$work"/*.whl "$@"
rm -rf "$target/bin" # its scripts contain the path of the Python on the build machine
