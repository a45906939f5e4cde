#!/usr/bin/env bash
# Installs the Debian packages whose commands are missing here: the real programs that the stack tests run.
set -euo pipefail

declare -A command_of=(
  [prometheus]=promtool [prometheus-alertmanager]=amtool [chromium]=chromium [docker-compose]=docker-compose
)
missing=()
for package in "${!command_of[@]}"; do
  command -v "${command_of[$package]}" >/dev/null || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
  echo "the stack tests need ${missing[*]}, and this is no Debian system: install them by hand" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  as_root=(sudo -n)
  sudo -n true 2>/dev/null || { echo "the stack tests need: sudo apt-get install ${missing[*]}" >&2; exit 1; }
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "installing ${missing[*]} ..."
if ! {
  # The tests want the programs; the services must not start, now or at the next boot.
  if [ -d /run/systemd/system ]; then "${as_root[@]}" systemctl mask prometheus prometheus-alertmanager; fi
  "${as_root[@]}" apt-get update &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "${missing[@]}"
} >"$log" 2>&1 </dev/null; then
  tail -n 20 "$log" >&2
  exit 1
fi
