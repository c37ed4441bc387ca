#!/bin/sh
# Spark runs on Java 17 or newer. Where it is missing and cannot be installed, its tests are left out.
set -eu
has_java() {
    for program in "${JAVA_HOME:+$JAVA_HOME/bin/java}" java; do
        [ -n "$program" ] && command -v "$program" >/dev/null || continue
        version=$("$program" -XX:-UsePerfData -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
        [ "${version:-0}" -ge 17 ] && return 0
    done
    return 1
}
has_java && exit 0
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "getting Java for the tests of Spark"
    get() { DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >/dev/null 2>&1; }
    apt-get update -qq >/dev/null 2>&1 || true
    for package in openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless; do
        get "$package" && has_java && exit 0
    done
fi
echo "no Java 17: the tests that run Spark are left out; install Debian's package openjdk-17-jre-headless for them"
