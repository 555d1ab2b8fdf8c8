#!/usr/bin/env bash
# debian-source.sh SUITE PACKAGE FOLDER: brings the archives of a source package of Debian to FOLDER, checked by apt.
set -euo pipefail
suite=$1 package=$2
mkdir -p "$3"
folder=$(cd "$3" && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial"
# From where this machine has its packages.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/$' | head -n 1) || true
[ -n "$mirror" ] || { echo "debian-source: apt has no source of Debian's packages" >&2; exit 1; }
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$work/source.list"
options=(
    -qq -o "Dir::Etc::SourceList=$work/source.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work" -o "APT::Sandbox::User=$(id -un)"
)
echo "fetching Debian's source package of $package" >&2
apt-get "${options[@]}" update
cd "$folder"
apt-get "${options[@]}" source --download-only "$package" >/dev/null
