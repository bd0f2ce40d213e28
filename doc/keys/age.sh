#!/bin/bash
# Master keys that age has encrypted, each in a file DIR/NAME.age.
#
#	age.sh init DIR		makes an identity for this server, and names it in DIR/recipients
#	age.sh add DIR NAME	makes a key, and encrypts it for all recipients
#	age.sh print DIR	prints all keys: for securefile.key_command
#
# The files NAME.age can be copied and kept in backups, since they are of no use without an
# identity.  DIR/identity must be in none of the places where these are kept.  A standby has the
# same files and an identity of its own.  DIR/recipients should name an identity, too, that is
# kept away from all servers, so that keys can be had when a server is lost.

set -euo pipefail
umask 077
dir=$2

case $1 in
	init)
		age-keygen -o "$dir/identity"
		age-keygen -y "$dir/identity" >>"$dir/recipients"
		;;
	add)
		# print would pass over such a file
		[ "${3#.}" = "$3" ] || { echo "age.sh: a name must not begin with a dot" >&2; exit 2; }
		new=$(mktemp "$dir/new.XXXXXX")
		trap 'rm -f "$new"' EXIT
		securefile key generate - "$3" | age -R "$dir/recipients" >"$new"
		sync "$new"
		# fails where there is a key of that name
		ln "$new" "$dir/$3.age"
		sync "$dir"
		;;
	print)
		for file in "$dir"/*.age; do
			age -d -i "$dir/identity" "$file"
		done
		;;
	*) echo "age.sh: there is no $1" >&2; exit 2 ;;
esac
