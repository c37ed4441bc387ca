#!/bin/sh
# The sandbox around agents needs bubblewrap on Linux. Where it is missing and cannot be installed, its tests are skipped.
set -eu
[ "$(uname)" = Linux ] || exit 0
command -v bwrap >/dev/null && exit 0
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "getting bubblewrap for the tests"
    get() { DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends bubblewrap >/dev/null 2>&1; }
    get && exit 0
    apt-get update -qq >/dev/null 2>&1 && get && exit 0
fi
echo "no bubblewrap: the tests of the sandbox are left out; install Debian's package bubblewrap for them"
