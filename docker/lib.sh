# Functions of the scripts that build images; to be sourced, not run.
# shellcheck shell=bash
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

has_image() { docker image inspect "$1" >/dev/null 2>&1; }

# The digest of the inputs of an image, from its label; nothing if there is no such image.
built_from() { docker image inspect -f '{{ index .Config.Labels "odradek.inputs" }}' "$1" 2>/dev/null || true; }

# debian_base IMAGE PACKAGE,PACKAGE: makes a Debian image with debootstrap (as root), without pulling an image.
# DEBIAN_MIRROR selects another mirror than debootstrap's default.
debian_base() {
  local image="$1" packages="$2" tree
  [ "$(id -u)" = 0 ] || { say "debootstrap needs root: give BASE_IMAGE, or pull the official image"; exit 1; }
  command -v debootstrap >/dev/null 2>&1 || apt_install debootstrap debian-archive-keyring \
    || { say "debootstrap could not be installed"; exit 1; }
  tree="$(mktemp -d)"
  # shellcheck disable=SC2064 # expands when the trap is set
  trap "rm -rf '$tree' '$tree.log'" EXIT
  say "building $image with debootstrap (under a minute)"
  debootstrap --variant=minbase --include="$packages" bookworm \
    "$tree" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$tree.log" 2>&1 || { tail -n 3 "$tree.log" >&2; exit 1; }
  tar -C "$tree" --exclude='./var/cache/apt/archives/*.deb' --exclude='./var/lib/apt/lists/*' \
    --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' -c . \
    | docker import - "$image" >/dev/null
  rm -rf "$tree" "$tree.log"
  trap - EXIT
}
