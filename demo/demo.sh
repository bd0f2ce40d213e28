#!/bin/bash
# make demo: install what is missing, build, and show a securefile column at work
# in a throw-away cluster, on real files.
#
#	DIR		directory tree whose files are loaded (default /usr/share)
#	SIZE_MB	how much at most (default 512): files as they are, and larger ones made of them
#	TOP		where the cluster lives (default /var/tmp/securefile-demo)
#	PORT	its port (default 54320)
#
# All that is loaded is copied first, so that other programs may change DIR meanwhile.  The
# server keeps running at the end; a second run replaces it.

set -eu

DIR=${DIR:-/usr/share}
SIZE_MB=${SIZE_MB:-512}
TOP=${TOP:-/var/tmp/securefile-demo}
PORT=${PORT:-54320}
PG_CONFIG=${PG_CONFIG:-pg_config}
here=$(cd "$(dirname "$0")" && pwd)

say() { printf '\n== %s\n' "$*"; }

stop_with()
{
	echo "demo: $*" >&2
	exit 1
}

# Run a command as root: as it is, or through sudo.
as_root()
{
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		stop_with "needs root for: $*"
	fi
}

# Run a command as the owner of the cluster; the server refuses to be root.
as_owner()
{
	if [ "$(id -u)" -eq 0 ]; then
		(cd / && runuser -u postgres -- "$@")
	else
		(cd / && "$@")
	fi
}

build()
{
	say "building and installing for $("$PG_CONFIG" --version)"
	make -s -C "$here/.." PG_CONFIG="$PG_CONFIG"
	if [ -w "$("$PG_CONFIG" --pkglibdir)" ]; then
		make -s -C "$here/.." PG_CONFIG="$PG_CONFIG" install
	else
		as_root make -s -C "$here/.." PG_CONFIG="$PG_CONFIG" install
	fi
}

# Stop and remove the cluster of an earlier run, and nothing else.
replace_earlier()
{
	[ -e "$TOP" ] || return 0
	[ -f "$TOP/made-by-securefile-demo" ] ||
		stop_with "$TOP is there and was not made by this demo: choose another TOP"
	say "replacing the demo that is in $TOP"
	as_owner "$bin/pg_ctl" -D "$TOP/data" -m immediate -w stop >/dev/null 2>&1 || true
	rm -rf "$TOP"
}

make_cluster()
{
	say "making a cluster in $TOP"
	mkdir -p "$TOP"
	touch "$TOP/made-by-securefile-demo"
	[ "$(id -u)" -ne 0 ] || chown postgres "$TOP"
	as_owner "$bin/initdb" -D "$TOP/data" -U postgres -A trust -E UTF8 --no-locale >/dev/null
	as_owner tee -a "$TOP/data/postgresql.conf" >/dev/null <<-CONF
		port = $PORT
		listen_addresses = ''
		unix_socket_directories = '$TOP'
		shared_preload_libraries = 'securefile'
		shared_buffers = 256MB
		max_wal_size = 4GB
		log_min_error_statement = panic
	CONF
	start_cluster
	"$bin/createdb" -h "$TOP" -p "$PORT" -U postgres files
}

start_cluster()
{
	as_owner "$bin/pg_ctl" -D "$TOP/data" -l "$TOP/log" -w -t 120 start >/dev/null
}

# SIGKILL of the postmaster and its children; wait until they are gone.
kill_cluster()
{
	local postmaster pid pids

	postmaster=$(head -n 1 "$TOP/data/postmaster.pid")
	pids="$postmaster $(ps -o pid= --ppid "$postmaster" | tr '\n' ' ')"
	for pid in $pids; do
		kill -9 "$pid" 2>/dev/null || true
	done
	for pid in $pids; do
		while [ -e "/proc/$pid" ]; do
			sleep 0.05
		done
	done
}

steps()
{
	/usr/bin/python3 "$here/demo.py" --dsn "host=$TOP port=$PORT user=postgres dbname=files" \
		--dir "$DIR" --tree "$TOP/tree" --size-mb "$SIZE_MB" "$@"
}

# The command, on a table of the demo.
securefile()
{
	echo "\$ securefile $*"
	"$bin/securefile" -h "$TOP" -p "$PORT" -U postgres -d files "$@"
}

# The same from the shell: the copy in, a look at it, the copy out again.
command_steps()
{
	local some

	say "the same with the command securefile"
	"$bin/psql" -q -h "$TOP" -p "$PORT" -U postgres files \
		-c 'CREATE TABLE tree (path text PRIMARY KEY, document securefile)'
	securefile import -t tree "$TOP/tree"
	echo "once more: what is the same is skipped"
	securefile import -t tree "$TOP/tree"
	securefile ls -t tree '*copyright' | head -n 5
	some=$("$bin/psql" -qAt -h "$TOP" -p "$PORT" -U postgres files \
		-c "SELECT path FROM tree ORDER BY path LIKE '%copyright' DESC, path LIMIT 1")
	securefile cat -t tree -- "$some" | head -n 4
	securefile stat -t tree --hash -- "$some"
	securefile export -t tree "$TOP/tree.out"
	diff -r "$TOP/tree" "$TOP/tree.out"
	echo "diff -r: no difference"
	securefile verify -t tree --against "$TOP/tree"
	rm -rf "$TOP/tree.out"
}

PG_CONFIG=$PG_CONFIG "$here/../test/need" demo || exit 1
command -v "$PG_CONFIG" >/dev/null || stop_with "$PG_CONFIG not found"
[ -d "$DIR" ] || stop_with "no directory $DIR"
bin=$("$PG_CONFIG" --bindir)
build
replace_earlier
make_cluster

steps copy
steps load
steps compare
steps reload
say "killing the server with SIGKILL, starting it again"
kill_cluster
start_cluster
steps compare
command_steps
steps figures

cat <<-END

	== The server is still running.

	Connect:     $bin/psql -h $TOP -p $PORT -U postgres files
	Try:         \d files
	             SELECT path, length(document) FROM files ORDER BY 2 DESC LIMIT 5;
	             SELECT substring(document FROM 1 FOR 40) FROM files LIMIT 1;
	             INSERT INTO files VALUES ('mine', now(), pg_read_binary_file('PG_VERSION'));
	             SELECT * FROM securefile_columns;
	             SELECT * FROM securefile_usage('files', 'document');
	             SELECT * FROM securefile_stat;
	             SELECT * FROM securefile_check('files', 'document');
	The command: $bin/securefile ls -h $TOP -p $PORT -U postgres -d files -t tree '*copyright'
	Stop it:     $([ "$(id -u)" -ne 0 ] || echo "runuser -u postgres -- ")$bin/pg_ctl -D $TOP/data stop
	Remove it:   rm -rf $TOP   (after stopping it)
END
