#!/bin/sh
# The tests of the store start a PostgreSQL server of their own. This gets its programs where they are missing and can
# be installed; elsewhere it says what to install, and those tests are skipped.

for bin in /usr/lib/postgresql/*/bin; do
    test -x "$bin/initdb" && exit 0
done
command -v initdb > /dev/null && exit 0

if command -v apt-get > /dev/null && test "$(id -u)" = 0; then
    echo "installing PostgreSQL for the tests"
    # Without a cluster that runs all the time: the tests make their own.
    export DEBIAN_FRONTEND=noninteractive
    mkdir -p /etc/postgresql-common && echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.conf
    { apt-get install --yes --quiet --no-install-recommends postgresql ||
        { apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends postgresql; }
    } > /dev/null 2>&1 && exit 0
fi
echo "no PostgreSQL here (initdb, postgres): install Debian's postgresql, Homebrew's postgresql or the like for its tests"
exit 0
