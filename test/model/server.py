"""A throw-away cluster: started, killed in several ways, started again."""

import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time

import psycopg

ALARM = re.compile(r"PANIC|TRAP: |was terminated by signal (?!9)|DATA_CORRUPTED|corrupt")


def bindir():
    """Where the server's programs are: on the path, or as pg_config says."""
    initdb = shutil.which("initdb")
    if initdb:
        return os.path.dirname(os.path.realpath(initdb))
    config = os.environ.get("PG_CONFIG", "pg_config")
    return subprocess.check_output([config, "--bindir"], text=True).strip()


class Server:
    """A cluster in a directory of its own, reached over a unix socket."""

    def __init__(self, settings):
        self.bin = bindir()
        self.user = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
        self.top = tempfile.mkdtemp(prefix="sfkill")
        self.data = os.path.join(self.top, "data")
        self.log = os.path.join(self.top, "log")
        if self.user:
            entry = pwd.getpwnam("postgres")
            os.chown(self.top, entry.pw_uid, entry.pw_gid)
        self.call("initdb", "-D", self.data, "-A", "trust", "-U", "postgres", "--no-sync")
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="ascii") as conf:
            conf.write(f"listen_addresses = ''\nunix_socket_directories = '{self.top}'\n")
            conf.writelines(f"{name} = {value}\n" for name, value in settings.items())
        self.dsn = f"host={self.top} dbname=postgres user=postgres"
        self.log_seen = 0

    def call(self, program, *args):
        """Run a program of the server's; its output only when it fails."""
        done = subprocess.run([os.path.join(self.bin, program), *args], cwd="/",
                              capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              check=False, **self.user)
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed: {done.stdout}{done.stderr}")

    def start(self):
        """Start it; a dead server's last children may need a moment to go."""
        for attempt in range(20):
            try:
                self.call("pg_ctl", "-D", self.data, "-l", self.log, "-w", "-t", "120", "start")
                return
            except RuntimeError as error:
                if attempt == 19 or "pre-existing shared memory" not in str(error):
                    raise
                time.sleep(0.3)

    def stop(self, mode="fast"):
        self.call("pg_ctl", "-D", self.data, "-m", mode, "-w", "stop")

    def postmaster(self):
        with open(os.path.join(self.data, "postmaster.pid"), encoding="ascii") as file:
            return int(file.readline())

    def children(self):
        """Processes whose parent is the postmaster."""
        parent = self.postmaster()
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent:
                found.append(int(name))
        return found

    def kill_all(self):
        """SIGKILL of the postmaster and of all its children."""
        victims = [self.postmaster()] + self.children()
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        end = time.time() + 30
        while any(os.path.exists(f"/proc/{pid}") for pid in victims) and time.time() < end:
            time.sleep(0.01)

    def kill_backend(self, rng):
        """SIGKILL of one process; the postmaster restarts all the others."""
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            while True:
                pid, kind = rng.choice(conn.execute(
                    "SELECT pid, backend_type FROM pg_stat_activity"
                    " WHERE pid <> pg_backend_pid()").fetchall())
                try:
                    os.kill(pid, signal.SIGKILL)
                    return kind
                except ProcessLookupError:
                    pass

    def connect(self, seconds=120):
        """A connection, as soon as the server takes one."""
        end = time.time() + seconds
        while True:
            try:
                return psycopg.connect(self.dsn, autocommit=True)
            except psycopg.OperationalError:
                if time.time() > end:
                    raise
                time.sleep(0.05)

    def alarms(self):
        """Lines of the log since the last call that must not be there."""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            file.seek(self.log_seen)
            lines = file.readlines()
            self.log_seen = file.tell()
        return [line.strip() for line in lines if ALARM.search(line)]

    def tail(self, lines=30):
        if not os.path.exists(self.log):
            return ""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-lines:])

    def remove(self):
        if os.path.exists(os.path.join(self.data, "postmaster.pid")):
            self.kill_all()
        shutil.rmtree(self.top, ignore_errors=True)
