#!/bin/bash
# Master keys from a server for keys.
#
#	https.sh print DIR	prints all keys: for securefile.key_command
#
# DIR has three files: url; header, with a line "Authorization: Bearer TOKEN", which only the
# server may read; ca.pem, with the certificate of the authority that has signed the one of the
# server for keys.  That server answers with the lines that the key command is to print.
#
# The token is in a file, since arguments of programs can be seen by all users.  What was
# stolen is of no use once the token is revoked, and the server for keys knows who asked when.

set -euo pipefail
dir=$2

case $1 in
	print)
		curl --silent --show-error --fail --max-time 20 --proto =https --cacert "$dir/ca.pem" \
			--header "@$dir/header" "$(cat "$dir/url")"
		;;
	*) echo "https.sh: there is no $1" >&2; exit 2 ;;
esac
