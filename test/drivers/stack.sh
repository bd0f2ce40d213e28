# What the programs "run" of the stacks share; "stacks" has the names they say it under.

skip()
{
	printf "skip - %s: ${1//[%\\]/}\n" "${stacks[@]}"
	exit 0
}

fail()
{
	printf "not ok - %s: ${1//[%\\]/}\n" "${stacks[@]}"
	exit 1
}

# no_packages log probe...: a failure, or if not even the probe reaches the registry, none.
no_packages()
{
	local why
	why="packages cannot be installed: $(grep -m 1 -iE 'error|^go: .*: ' "$1")"
	shift
	"$@" >/dev/null 2>&1 && fail "$why"
	skip "$why"
}
