#!/bin/sh
# The Gemini CLI that the tests run, with a model of their own: one on the PATH will do, else npm gets it (100 MB).
set -eu
version=0.61.0
[ -n "${UNSPOOL_GEMINI_PROGRAM:-}" ] && exit 0
command -v gemini >/dev/null && exit 0
[ -x .agents/gemini/node_modules/.bin/gemini ] && exit 0
if command -v npm >/dev/null; then
    echo "getting Gemini CLI for the tests"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix .agents/gemini "@google/gemini-cli@$version" \
        >/dev/null 2>&1 && exit 0
fi
echo "no Gemini CLI: the tests that run it are left out; install it with: npm install -g @google/gemini-cli"
