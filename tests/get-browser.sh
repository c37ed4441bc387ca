#!/bin/sh
# The browser in which the web app is tried out: Chromium without its windows, which is a third faster, or any other one.
set -eu
command -v chromium-headless-shell >/dev/null && exit 0
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "getting Chromium for the tests"
    get() { DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >/dev/null 2>&1; }
    apt-get update -qq >/dev/null 2>&1 || true
    get chromium-headless-shell && exit 0
    command -v chromium >/dev/null || get chromium || true
fi
for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && exit 0
done
echo "no Chromium: the tests in a browser are left out; install Debian's package chromium for them"
