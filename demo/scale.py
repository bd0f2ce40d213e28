#!/usr/bin/python3
"""make demo-scale: files in a table of Citus, on two workers, through a move of shards and the
loss of a worker.

    demo/scale.py [--dir DIR] [--size-mb N] [--jobs N] [--keep]

Makes four servers of its own in a new directory below TMPDIR (/var/tmp): a coordinator, two
workers, and a standby of the first worker.  Needs Citus in the PostgreSQL of PG_CONFIG, and make
install.  Servers listen on Unix sockets in that directory only.  At the end, also after an
error, they are stopped and the directory is removed; with --keep they go on.

DIR: the tree whose files are copied, N MB of it at most, and then imported.  Files that change
meanwhile do not matter.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

MB = 1000 * 1000
LONG = 12       # files that are made, longer than what goes through the coordinator
SETTINGS = """
unix_socket_directories = '{top}'
listen_addresses = ''
port = {port}
shared_preload_libraries = 'citus, securefile'
citus.local_hostname = '{top}'
citus.shard_count = 8
wal_level = logical
max_prepared_transactions = 100
max_worker_processes = 20
shared_buffers = 64MB
log_min_error_statement = panic
"""


def say(text):
    print(f"\n== {text}", flush=True)


def complain(text):
    sys.exit(f"demo-scale: {text}")


class Demo:
    """The directory, and what runs in it."""

    def __init__(self, options, bindir):
        self.options, self.bindir = options, bindir
        self.is_root = os.getuid() == 0
        self.top = tempfile.mkdtemp(prefix="securefile-scale-", dir=os.environ.get("TMPDIR", "/var/tmp"))
        self.servers = []
        if self.is_root:
            shutil.chown(self.top, "postgres", "postgres")

    def run(self, words, **more):
        """A program of PostgreSQL as the owner of the servers, who is not root."""
        if self.is_root:
            more.update(user="postgres", group="postgres", extra_groups=[])
        return subprocess.run([os.path.join(self.bindir, words[0]), *words[1:]], cwd=self.top,
                              check=True, stdout=subprocess.DEVNULL, **more)

    def securefile(self, *words):
        """The command, on table files of the coordinator; returns the seconds it took."""
        print("$ securefile " + " ".join(words), flush=True)
        began = time.time()
        subprocess.run([os.path.join(self.bindir, "securefile"), words[0], "-h", self.top, "-p",
                        str(self.servers[0].port), "-U", "postgres", "-d", "postgres", "-t", "files",
                        *words[1:]], check=True)
        return time.time() - began

    def end(self):
        if self.options.keep:
            print(f"\nThe servers go on.  psql -h {self.top} -p {self.servers[0].port} -U postgres postgres\n"
                  f"Stop them: for d in {self.top}/*.data; do pg_ctl -D $d stop; done; then remove {self.top}.")
            return
        for server in self.servers:
            server.stop()
        shutil.rmtree(self.top)


class Server:
    """A server of its own: initdb, or a copy of another one as its standby."""

    def __init__(self, demo, name, port, primary=None):
        self.demo, self.name, self.port = demo, name, port
        self.data = os.path.join(demo.top, name + ".data")
        if primary is None:
            demo.run(["initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale"])
            self.configure(SETTINGS.format(top=demo.top, port=port))
        else:
            demo.run(["pg_basebackup", "-D", self.data, "-R", "-c", "fast", "-h", demo.top,
                      "-p", str(primary.port), "-U", "postgres"])
            key = os.path.join(self.data, "server.key")     # which Citus has made for its connections
            if os.path.exists(key):
                os.chmod(key, 0o600)
            self.configure(f"port = {port}\n")
        demo.servers.append(self)
        demo.run(["pg_ctl", "-D", self.data, "-l", self.data + ".log", "-w", "start"])

    def configure(self, text):
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="ascii") as conf:
            conf.write(text)

    def sql(self, statement):
        done = subprocess.run([os.path.join(self.demo.bindir, "psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", self.demo.top,
                               "-p", str(self.port), "-U", "postgres", "postgres", "-c", statement],
                              stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{self.name}: {statement}")
        return done.stdout.strip()

    def postmaster(self):
        try:
            with open(os.path.join(self.data, "postmaster.pid"), encoding="ascii") as file:
                return int(file.readline())
        except FileNotFoundError:
            return None

    def kill(self):
        """SIGKILL for the postmaster and its children."""
        postmaster = self.postmaster()
        pids = subprocess.run(["ps", "-o", "pid=", "--ppid", str(postmaster)], stdout=subprocess.PIPE, text=True,
                              check=False).stdout.split()
        for pid in [postmaster, *map(int, pids)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        while os.path.exists(f"/proc/{postmaster}"):
            time.sleep(0.05)

    def stop(self):
        pid = self.postmaster()
        if pid is not None and os.path.exists(f"/proc/{pid}"):
            self.demo.run(["pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop"])


def wait_for(server, statement):
    until = time.time() + 120
    while server.sql(statement) != "t":
        if time.time() > until:
            complain(f"{server.name}: never true: {statement}")
        time.sleep(0.2)


def make_tree(demo, tree):
    """A copy of files of DIR, and some long ones; returns the bytes."""
    total = count = 0
    for directory, names, files in os.walk(demo.options.dir):
        names.sort()
        for name in sorted(files):
            path = os.path.join(directory, name)
            try:
                path.encode()
                size = os.path.getsize(path)
                if os.path.islink(path) or not os.path.isfile(path) or \
                        total + size > demo.options.size_mb * MB / 2 or count == 3000:
                    continue
                target = os.path.join(tree, os.path.relpath(path, demo.options.dir))
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copyfile(path, target)
            except (OSError, UnicodeEncodeError):
                continue
            total += size
            count += 1
    length = int(demo.options.size_mb * MB / 2 / LONG)
    for number in range(LONG):
        with open(os.path.join(tree, f"long-{number}"), "wb") as file:
            file.write(os.urandom(length))
        total += length
    return total


def show_nodes(coordinator):
    print(coordinator.sql("""SELECT string_agg(format('node on port %s: %s shards, %s MB', nodeport, n, round(bytes / 1e6)), E'\n' ORDER BY nodeport)
        FROM (SELECT nodeport, count(*) AS n, sum(file_bytes) AS bytes FROM securefile_dist_columns GROUP BY 1) s"""))


def move_shard(coordinator, source, target, mode):
    shard = coordinator.sql(f"""SELECT shardid FROM citus_shards
        WHERE table_name = 'files'::regclass AND nodeport = {source.port} ORDER BY shardid DESC LIMIT 1""")
    began = time.time()
    coordinator.sql(f"""SELECT citus_move_shard_placement({shard}, '{source.demo.top}', {source.port},
        '{target.demo.top}', {target.port}, '{mode}')""")
    print(f"shard {shard} from {source.name} to {target.name}, {mode}: {time.time() - began:.1f} s")


def make_cluster(demo):
    say(f"a coordinator and two workers in {demo.top}")
    coordinator, *workers = [Server(demo, name, 6400 + n) for n, name in enumerate(("coordinator", "worker1", "worker2"))]
    for server in demo.servers:
        server.sql("CREATE EXTENSION citus")
    coordinator.sql("CREATE EXTENSION securefile")
    coordinator.sql("CREATE EXTENSION securefile_citus")
    coordinator.sql(f"SELECT citus_set_coordinator_host('{demo.top}', {coordinator.port})")
    for worker in workers:
        coordinator.sql(f"SELECT citus_add_node('{demo.top}', {worker.port})")
    coordinator.sql("CREATE TABLE files (path text PRIMARY KEY, document securefile)")
    coordinator.sql("SELECT create_distributed_table('files', 'path')")
    return coordinator, workers


def lose_worker(coordinator, worker, standby):
    wait_for(worker, f"SELECT pg_current_wal_flush_lsn() <= '{standby.sql('SELECT pg_last_wal_replay_lsn()')}'")
    worker.kill()
    began = time.time()
    standby.sql("SELECT pg_promote()")
    coordinator.sql(f"""SELECT citus_update_node(nodeid, '{standby.demo.top}', {standby.port})
        FROM pg_dist_node WHERE nodeport = {worker.port}""")
    print(f"its standby has taken its place after {time.time() - began:.1f} s")


def steps(demo):
    tree = os.path.join(demo.top, "tree")
    os.mkdir(tree)
    coordinator, workers = make_cluster(demo)
    say(f"files of {demo.options.dir}, and {LONG} long ones, into the table")
    total = make_tree(demo, tree)
    jobs = ["-j", str(demo.options.jobs)]
    seconds = demo.securefile("import", *jobs, tree)
    print(f"{total / MB:.0f} MB in {seconds:.1f} s: {total / MB / seconds:.0f} MB/s, on one machine")
    show_nodes(coordinator)
    say("two shards are moved: writers wait, and writers go on")
    move_shard(coordinator, *workers, "block_writes")
    move_shard(coordinator, *workers[::-1], "force_logical")
    show_nodes(coordinator)
    demo.securefile("verify", *jobs, "--against", tree)
    say("a standby of the first worker, then SIGKILL of the worker")
    standby = Server(demo, "standby", 6403, workers[0])
    lose_worker(coordinator, workers[0], standby)
    demo.securefile("verify", *jobs, "--against", tree)
    out = os.path.join(demo.top, "out")
    demo.securefile("export", *jobs, out)
    subprocess.run(["diff", "-r", tree, out], check=True)
    print("diff -r: no difference")
    print("findings of securefile_dist_check(): " + coordinator.sql("SELECT count(*) FROM securefile_dist_check('files', 'document')"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", default=os.environ.get("DIR", "/usr/share/doc"))
    parser.add_argument("--size-mb", type=int, default=int(os.environ.get("SIZE_MB", "200")))
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--keep", action="store_true", help="leave the servers running")
    options = parser.parse_args()
    config = os.environ.get("PG_CONFIG", "pg_config")
    bindir, share = (subprocess.run([config, word], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
                     for word in ("--bindir", "--sharedir"))
    for name in ("citus", "securefile_citus"):
        if not os.path.exists(os.path.join(share, "extension", name + ".control")):
            complain(f"the PostgreSQL of {config} has no extension {name}: "
                     + ("install Citus (https://github.com/citusdata/citus)" if name == "citus" else "make install"))
    demo = Demo(options, bindir)
    try:
        steps(demo)
    finally:
        demo.end()


main()
