#!/bin/sh
# The browser in which the web app is tried out: any Chromium on the PATH will do.
set -eu
for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && exit 0
done
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "getting Chromium for the tests"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } >/dev/null && exit 0
fi
echo "no Chromium: the tests in a browser are left out; install Debian's package chromium for them"
