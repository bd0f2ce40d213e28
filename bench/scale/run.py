#!/usr/bin/python3
"""How files scale over the workers of Citus, each with a part of a processor.

    bench/scale/run.py [--workers N] [--shards N] [--cores F] [--seconds S] [--repeat N] [--sizes BYTES,..]
                       [--operations NAME,..] [--standbys N] [--results FILE]

Makes servers of its own in TMPDIR (/var/tmp): a coordinator, workers, and one ordinary server,
each in a control group that gives it so many cores and counts its processor time.  So it
needs root, the control groups "cpu" of Linux (version 1 or 2), Citus in the PostgreSQL of
PG_CONFIG, and make install.  Memory and disk are shared: the figures tell how processor
time scales, and not disks.

With --standbys N the ordinary server, and then it and N standbys of it at the same time, are read.

With --workers 1 --cores 1 the processor time of shards compares with that of an ordinary table.

For one worker, then two, and so on: clients with a pool for each worker put, insert and
get values straight at the shards, and through the coordinator.  In each repetition all take
their turn.  Prints a table, and writes it with all figures (JSON) to FILE.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
OPERATIONS = ["put", "insert", "batch", "get", "coordinator_insert", "coordinator_get"]
LOCAL = ["local_put", "local_insert", "local_batch", "local_get"]
SETTINGS = """
unix_socket_directories = '{directory}'
listen_addresses = ''
port = {port}
wal_level = logical
max_prepared_transactions = 100
max_connections = 200
max_worker_processes = 20
shared_buffers = 256MB
max_wal_size = 8GB
checkpoint_timeout = 1h
autovacuum = off
"""


class Group:
    """A control group: a limit of processor time, and how much was used."""

    def __init__(self, name, cores):
        self.old = os.path.exists("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
        roots = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuacct"] if self.old else ["/sys/fs/cgroup"]
        self.paths = [os.path.join(root, name) for root in dict.fromkeys(map(os.path.realpath, roots))]
        for path in self.paths:
            os.mkdir(path)
        period = 20000
        if self.old:
            self.write(self.paths[0], "cpu.cfs_period_us", period)
            self.write(self.paths[0], "cpu.cfs_quota_us", int(period * cores))
        else:
            self.write(self.paths[0], "cpu.max", f"{int(period * cores)} {period}")

    @staticmethod
    def write(path, name, value):
        with open(os.path.join(path, name), "w", encoding="ascii") as file:
            file.write(str(value))

    def enter(self):
        for path in self.paths:
            self.write(path, "cgroup.procs", os.getpid())

    def seconds(self):
        if self.old:
            with open(os.path.join(self.paths[-1], "cpuacct.usage"), encoding="ascii") as file:
                return int(file.read()) / 1e9
        with open(os.path.join(self.paths[0], "cpu.stat"), encoding="ascii") as file:
            return int(dict(line.split() for line in file)["usage_usec"]) / 1e6

    def remove(self):
        for path in self.paths:
            os.rmdir(path)


class Server:
    """A server in a control group."""

    def __init__(self, bench, number, citus):
        self.bench = bench
        self.name = f"node{number}"
        self.port = 5432 + number
        self.data = os.path.join(bench.directory, self.name)
        self.group = Group(f"securefile-scale-{os.getpid()}-{self.name}", bench.options.cores)
        bench.as_owner(["initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "--no-locale"])
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="ascii") as conf:
            conf.write(SETTINGS.format(directory=bench.directory, port=self.port))
            conf.write(f"shared_preload_libraries = '{'citus, ' if citus else ''}securefile'\n")
            if citus:
                conf.write(f"citus.local_hostname = '{bench.directory}'\ncitus.shard_count = {bench.options.shards}\n")
        bench.as_owner(["pg_ctl", "-D", self.data, "-l", self.data + ".log", "-w", "start"],
                       before=self.group.enter)
        if citus:
            self.sql("CREATE EXTENSION citus")
        self.sql("CREATE EXTENSION securefile")

    @classmethod
    def standby(cls, bench, number, primary):
        """A standby of another server."""
        self = cls.__new__(cls)
        self.bench = bench
        self.name = f"standby{number}"
        self.port = 5400 + number
        self.data = os.path.join(bench.directory, self.name)
        self.group = Group(f"securefile-scale-{os.getpid()}-{self.name}", bench.options.cores)
        bench.as_owner(["pg_basebackup", "-D", self.data, "-R", "-c", "fast", "-d", primary.conninfo()])
        with open(os.path.join(self.data, "postgresql.auto.conf"), "a", encoding="ascii") as conf:
            conf.write(f"port = {self.port}\n")
        bench.as_owner(["pg_ctl", "-D", self.data, "-l", self.data + ".log", "-w", "start"],
                       before=self.group.enter)
        return self

    def conninfo(self):
        return f"host={self.bench.directory} port={self.port} user=postgres dbname=postgres"

    def sql(self, *statements):
        arguments = [word for statement in statements for word in ("-c", statement)]
        return subprocess.run([self.bench.program("psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", *arguments,
                               self.conninfo()], check=True, capture_output=True, text=True).stdout

    def stop(self):
        self.bench.as_owner(["pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop"])
        self.group.remove()


class Bench:
    """The servers, and what was measured."""

    def __init__(self, options):
        self.options = options
        self.bin = subprocess.run([os.environ.get("PG_CONFIG", "pg_config"), "--bindir"], check=True,
                                  capture_output=True, text=True).stdout.strip()
        self.directory = tempfile.mkdtemp(prefix="scale.", dir=os.environ.get("TMPDIR", "/var/tmp"))
        shutil.chown(self.directory, "postgres")
        self.servers = []
        self.measured = []
        self.first = 0

    def program(self, name):
        return os.path.join(self.bin, name)

    def as_owner(self, command, before=None):
        subprocess.run(["runuser", "-u", "postgres", "--", self.program(command[0]), *command[1:]],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/", preexec_fn=before)

    def start(self):
        """The coordinator, the workers (of which none belongs to it yet), the ordinary server."""
        for number in range(self.options.workers + 1):
            self.servers.append(Server(self, number, True))
        self.servers.append(Server(self, self.options.workers + 1, False))
        self.coordinator, *self.workers, self.single = self.servers
        self.coordinator.sql(f"SELECT citus_set_coordinator_host('{self.directory}', {self.coordinator.port})")

    def make_table(self, servers):
        """Rows to read, and room to write."""
        self.coordinator.sql("DROP TABLE IF EXISTS scale",
                             "CREATE TABLE scale (id bigint PRIMARY KEY, document securefile(filesystem_like_logging))",
                             "SELECT create_distributed_table('scale', 'id')")
        self.single.sql("DROP TABLE IF EXISTS scale",
                        "CREATE TABLE scale (id bigint PRIMARY KEY, document securefile(filesystem_like_logging))")
        self.first = 0
        self.servers_now = servers

    def scale(self, operation, size, seconds, rows=200):
        server = self.single if operation in LOCAL else self.coordinator
        clients = self.options.clients
        if operation.startswith("coordinator"):
            clients *= self.servers_now
        writes = "get" not in operation
        done = subprocess.Popen([os.path.join(HERE, "scale"), operation, "--size", str(size), "--clients", str(clients),
                                  "--seconds", str(seconds), "--rows", str(rows),
                                  "--first", str(self.first if writes else 0), server.conninfo()],
                                stdout=subprocess.PIPE, text=True)
        done.stdout.readline()
        before = [each.group.seconds() for each in self.servers]
        printed, _ = done.communicate()
        if done.returncode != 0:
            raise RuntimeError(f"scale {operation} failed")
        result = json.loads(printed)
        used = [each.group.seconds() - was for each, was in zip(self.servers, before)]
        if writes:
            self.first += 20000
        result.update(workers=self.servers_now, coordinator_ms_per_mb=1000 * used[0] / result["mb"],
                      workers_ms_per_mb=1000 * (used[-1] if operation in LOCAL else sum(used[1:-1])) / result["mb"])
        return result

    def load(self, size):
        """The rows from 0 to 199, here and there."""
        for server in (self.coordinator, self.single):
            self.load_one(server, size)
        self.first = 20000

    @staticmethod
    def load_one(server, size):
        rows = f"SELECT i, decode(repeat(md5(i::text), {size // 16 + 1}), 'hex') FROM generate_series(0, 199) i"
        server.sql(f"INSERT INTO scale SELECT i, substring(d FOR {size}) FROM ({rows}) s (i, d)")

    def run(self):
        for workers in range(1, self.options.workers + 1):
            worker = self.workers[workers - 1]
            self.coordinator.sql(f"SELECT citus_add_node('{self.directory}', {worker.port})")
            if workers == 1:
                self.coordinator.sql("CREATE EXTENSION IF NOT EXISTS securefile_citus")
            for size in self.options.sizes:
                self.make_table(workers)
                self.load(size)
                operations = [name for name in OPERATIONS + (LOCAL if workers == 1 else [])
                              if name in self.options.operations]
                for repetition in range(-1, self.options.repeat):
                    for operation in operations:
                        result = self.scale(operation, size, self.options.seconds if repetition >= 0 else 1)
                        if repetition >= 0:
                            self.measured.append(result)
                print(f"{workers} workers, {size} bytes: done", file=sys.stderr)

    def read_standbys(self):
        """What one server gives, and what it gives with its standbys: MB/s."""
        size = 1_000_000
        self.single.sql("DROP TABLE IF EXISTS scale", "CREATE TABLE scale (id bigint PRIMARY KEY, document securefile)")
        self.load_one(self.single, size)
        standbys = [Server.standby(self, number, self.single) for number in range(self.options.standbys)]
        self.servers += standbys
        for standby in standbys:
            while standby.sql("SELECT count(*) FROM scale") != "200\n":
                time.sleep(0.1)
        for servers in ([self.single], [self.single, *standbys]) * (self.options.repeat + 1):
            runs = [subprocess.Popen([os.path.join(HERE, "scale"), "local_get", "--size", str(size),
                                      "--clients", str(self.options.clients), "--seconds", str(self.options.seconds),
                                      server.conninfo()], stdout=subprocess.PIPE, text=True) for server in servers]
            speeds = [json.loads(run.communicate()[0].splitlines()[1])["mb_per_second"] for run in runs]
            self.measured.append({"operation": "standbys", "size": size, "workers": len(servers),
                                  "mb_per_second": sum(speeds)})
        one, all_of_them = (self.median("mb_per_second", operation="standbys", workers=n)
                            for n in (1, 1 + self.options.standbys))
        print(f"reads of 1 MB: {one:.0f} MB/s from one server, {all_of_them:.0f} with {self.options.standbys}"
              f" standbys: {all_of_them / one:.2f}")

    def median(self, name, **which):
        found = [m[name] for m in self.measured if all(m[key] == value for key, value in which.items())]
        return statistics.median(found) if found else None

    def table(self):
        lines = ["| operation | bytes | " + " | ".join(f"{w} workers, MB/s" for w in range(1, self.options.workers + 1))
                 + " | most to one | coordinator, ms a MB | workers, ms a MB | first byte, ms |",
                 "|---" * (self.options.workers + 6) + "|"]
        for size in self.options.sizes:
            for operation in self.options.operations:
                speeds = [self.median("mb_per_second", operation=operation, size=size, workers=w)
                          for w in range(1, self.options.workers + 1)]
                most = self.options.workers if operation in OPERATIONS else 1
                cells = [f"{speed:.1f}" if speed else "" for speed in speeds]
                ratio = f"{speeds[most - 1] / speeds[0]:.2f}" if most > 1 else ""
                cost = [self.median(name, operation=operation, size=size, workers=most)
                        for name in ("coordinator_ms_per_mb", "workers_ms_per_mb", "first_byte_ms")]
                lines.append(f"| {operation} | {size} | {' | '.join(cells)} | {ratio} | "
                             f"{cost[0]:.3f} | {cost[1]:.2f} | {cost[2]:.1f} |" if "get" in operation else
                             f"| {operation} | {size} | {' | '.join(cells)} | {ratio} | "
                             f"{cost[0]:.3f} | {cost[1]:.2f} | |")
        return "\n".join(lines)

    def stop(self):
        for server in reversed(self.servers):
            server.stop()
        shutil.rmtree(self.directory)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--shards", type=int, default=12)
    parser.add_argument("--cores", type=float, default=0.25, help="of each server")
    parser.add_argument("--seconds", type=float, default=3, help="of each turn")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--clients", type=int, default=4, help="for each worker")
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")],
                        default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--operations", type=lambda text: text.split(","), default=OPERATIONS + LOCAL)
    parser.add_argument("--standbys", type=int, default=0)
    parser.add_argument("--results")
    options = parser.parse_args()
    unknown = set(options.operations) - set(OPERATIONS + LOCAL)
    if unknown:
        parser.error(f"no operation {', '.join(sorted(unknown))}")
    subprocess.run(["make", "-s", "-C", os.path.dirname(HERE), "scale/scale"], check=True)
    bench = Bench(options)
    try:
        bench.start()
        bench.run()
        print(bench.table())
        if options.standbys:
            bench.read_standbys()
        if options.results:
            with open(options.results, "w", encoding="ascii") as file:
                json.dump(bench.measured, file, indent=1)
    finally:
        bench.stop()


if __name__ == "__main__":
    main()
