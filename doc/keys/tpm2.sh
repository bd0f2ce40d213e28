#!/bin/bash
# Master keys as age.sh makes them, with the server's identity sealed by the TPM of its machine.
#
#	tpm2.sh seal DIR	seals DIR/identity, and removes the file
#	tpm2.sh print DIR	prints all keys: for securefile.key_command
#
# The identity can be had on this machine only, and only while it was started in the same way:
# PCR 7 tells the state of Secure Boot.  A disk, or a copy of it, is of no use elsewhere.  After a
# change of that state, or when the machine is lost, the keys can be had with another identity
# in DIR/recipients only: have one that is kept away from all servers (see age.sh).
#
# The user of the server must be in the group of the TPM, which is tss in Debian.

set -euo pipefail
umask 077
dir=$2
pcrs=sha256:7
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Run a command; a TPM without a resource manager has room for three objects only.
tpm()
{
	"$@"
	tpm2_flushcontext --transient-object
}

# The key that everything is sealed with, which the TPM makes again each time.
tpm tpm2_createprimary --quiet -C o -G ecc -c "$work/primary"
case $1 in
	seal)
		tpm2_createpolicy --quiet --policy-pcr -l "$pcrs" -L "$work/policy"
		grep '^AGE-SECRET-KEY-' "$dir/identity" |
			tpm tpm2_create --quiet -C "$work/primary" -a 'fixedtpm|fixedparent' -L "$work/policy" \
				-i - -u "$dir/sealed.pub" -r "$dir/sealed.priv"
		sync "$dir/sealed.pub" "$dir/sealed.priv" "$dir"
		shred -u "$dir/identity"
		;;
	print)
		tpm tpm2_load --quiet -C "$work/primary" -u "$dir/sealed.pub" -r "$dir/sealed.priv" -c "$work/sealed"
		identity=$(tpm tpm2_unseal -c "$work/sealed" -p "pcr:$pcrs")
		for file in "$dir"/*.age; do
			printf '%s\n' "$identity" | age -d -i - "$file"
		done
		;;
	*) echo "tpm2.sh: there is no $1" >&2; exit 2 ;;
esac
