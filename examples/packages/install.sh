#!/bin/sh
# An install under a policy of packages, what was decided, and the bill of materials.
#
#   examples/packages/install.sh [CORDON]
#
# Needs a server (make up) whose template has npm, and a network that reaches the registry.
set -eu
cordon=${1:-build/cordon}
here=$(dirname "$0")

$cordon policy check "$here/policy.json"
# Which rule decides? Nothing is asked for, and no session is needed.
$cordon policy explain --policy "$here/policy.json" --package npm:left-pad@1.3.0 || true

id=$($cordon create --policy "$here/policy.json")
trap '$cordon rm "$id" >/dev/null' EXIT
# The highest version that is at least 7 days old; if it had install scripts, it would be refused.
$cordon exec "$id" -- npm install --no-audit --no-fund is-number
# Refused: npm prints the reason.
$cordon exec "$id" -- npm install --no-audit --no-fund left-pad || true

$cordon packages "$id"
$cordon packages "$id" --sbom
