#!/bin/bash
# Master keys that are encrypted for a key in a PKCS#11 token (an HSM), each in a file
# DIR/NAME.rsa.
#
#	pkcs11.sh init DIR	makes a pair of RSA keys in the token, and writes DIR/public
#	pkcs11.sh add DIR NAME	makes a master key, and encrypts it; needs no token
#	pkcs11.sh print DIR	prints all keys: for securefile.key_command
#
# The token has the label "securefile"; its PIN is in DIR/pin, which only the server may read;
# PKCS11_MODULE is the library of its maker.  The private key cannot be read out of the token.
# So the files NAME.rsa are of no use without token and PIN, and may be in backups.  Whoever
# has both can decrypt them for as long as he has both.  Keep a second token with the same key,
# as its maker says: when the last one is lost, the master keys are.

set -euo pipefail
umask 077
dir=$2

# The tool of OpenSC, logged in.
token()
{
	PIN=$(cat "$dir/pin") pkcs11-tool --module "${PKCS11_MODULE:-/usr/lib/softhsm/libsofthsm2.so}" \
		--token-label securefile --login --pin env:PIN --id 01 "$@"
}

case $1 in
	init)
		token --keypairgen --key-type rsa:3072 --label securefile
		token --read-object --type pubkey --output-file "$dir/public"
		;;
	add)
		# print would pass over such a file
		[ "${3#.}" = "$3" ] || { echo "pkcs11.sh: a name must not begin with a dot" >&2; exit 2; }
		new=$(mktemp "$dir/new.XXXXXX")
		trap 'rm -f "$new"' EXIT
		securefile key generate - "$3" | openssl pkeyutl -encrypt -pubin -keyform DER \
			-inkey "$dir/public" -pkeyopt rsa_padding_mode:oaep >"$new"
		sync "$new"
		# fails where there is a key of that name
		ln "$new" "$dir/$3.rsa"
		sync "$dir"
		;;
	print)
		# SHA-1 is what all tokens know for this padding, which does not rely on it; the tool
		# may write messages to its standard output
		for file in "$dir"/*.rsa; do
			token --decrypt --mechanism RSA-PKCS-OAEP --hash-algorithm SHA-1 --input-file "$file" \
				--output-file /dev/fd/3 3>&1 >/dev/null | cat
		done
		;;
	*) echo "pkcs11.sh: there is no $1" >&2; exit 2 ;;
esac
