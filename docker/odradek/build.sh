#!/usr/bin/env bash
# Builds the image odradek/odradek:VERSION (and :latest) and prints its name. `docker build` needs no network: the locked
# packages are resolved before and copied in. The base is BASE_IMAGE, else the official Python image if it is there or
# can be pulled, else a Debian made with debootstrap. Does nothing if the image is up to date.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

HERE="$ROOT/docker/odradek"
OFFICIAL="$(sed -n 's/^ARG BASE_IMAGE=//p' "$HERE/Dockerfile")"
DEBIAN=odradek/python-base:bookworm
VERSION="$(sed -n 's/^version = "\(.*\)"/\1/p' "$ROOT/pyproject.toml" | head -n 1)"
IMAGE="odradek/odradek:$VERSION"
export UV="${UV:-$(command -v uv || echo "$ROOT/.venv-uv/bin/uv")}"

inputs() {
  (cd "$ROOT" && git ls-files -z --cached --others --exclude-standard -- \
    docker/odradek docker/lib.sh 'odradek/*.py' odradek/py.typed gateway wire partitions coordinator storage_backends pipeline pyproject.toml uv.lock README.md \
    | sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1)
}

base() {
  if [ -n "${BASE_IMAGE:-}" ]; then echo "$BASE_IMAGE"; return; fi
  if has_image "$OFFICIAL"; then echo "$OFFICIAL"; return; fi
  if has_image "$DEBIAN"; then echo "$DEBIAN"; return; fi
  if timeout 120 docker pull -q "$OFFICIAL" >/dev/null 2>&1; then echo "$OFFICIAL"; return; fi
  debian_base "$DEBIAN" python3
  echo "$DEBIAN"
}

build_image() { # build_image BASE INPUTS
  local context python
  context="$(mktemp -d)"
  # shellcheck disable=SC2064 # expands when the trap is set
  trap "rm -rf '$context'" EXIT
  python="$(docker run --rm --entrypoint python3 "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
  say "building $IMAGE on $1 (Python $python)"
  sh "$HERE/install_packages.sh" "$ROOT" "$context/packages" --python-version "$python" --python-platform "$(uname -m)-manylinux_2_28"
  mkdir -p "$context/docker"
  cp -r "$HERE" "$context/docker/odradek"
  DOCKER_BUILDKIT=0 docker build -q --force-rm --label "odradek.inputs=$2" --build-arg "BASE_IMAGE=$1" \
    -f "$context/docker/odradek/Dockerfile" -t "$IMAGE" -t odradek/odradek:latest "$context" >"$context/log" 2>&1 \
    || { say "docker build failed: $(tail -n 3 "$context/log")"; exit 1; }
  docker image prune --force --filter label=odradek.image=odradek >/dev/null # the first stage, and the replaced image
  rm -rf "$context"
  trap - EXIT
}

"$ROOT/scripts/ensure_docker.sh"
inputs="$(inputs)"
[ "$(built_from "$IMAGE")" = "$inputs" ] || build_image "$(base)" "$inputs"
echo "$IMAGE"
