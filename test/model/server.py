"""A throw-away cluster: started, killed in several ways, started again."""

import fcntl
import os
import pwd
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time

import psycopg

EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2

ALARM = re.compile(r"PANIC|TRAP: |was terminated by signal (?!9)|DATA_CORRUPTED|corrupt")

# The leader of parallel workers, when its postmaster is killed, dies in the
# middle of its abort ("postmaster exited during a parallel transaction"); an
# assertion of PostgreSQL itself, 15 at least, does not like that.  And what it
# says when a standby was killed, and recovery was.
NO_ALARM = re.compile(r'TRAP: FailedAssertion\("!IsTransactionOrTransactionBlock\(\)", File: "pgstat.c"'
                      r"|HINT:  If this has occurred more than once some data might be corrupted"
                      r"|HINT:  This probably means that some data is corrupted and you will have")


def bindir():
    """Where the server's programs are: on the path, or as pg_config says."""
    initdb = shutil.which("initdb")
    if initdb:
        return os.path.dirname(os.path.realpath(initdb))
    config = os.environ.get("PG_CONFIG", "pg_config")
    return subprocess.check_output([config, "--bindir"], text=True).strip()


def children(parent):
    """Processes whose parent is a process."""
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


def state(pid):
    """The letter that says what a process does; X when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def is_running(pid):
    """Neither gone nor dead already, which is as good: nothing of it is open."""
    return state(pid) not in "ZX"


class Disk:
    """A file system of its own, whose power can be cut; needs root."""

    initdb = []				# more arguments for it

    def __init__(self, top, size="6G"):
        self.image = os.path.join(top, "image")
        self.mounted = os.path.join(top, "disk")
        os.mkdir(self.mounted)
        subprocess.run(["truncate", "-s", size, self.image], check=True)
        subprocess.run(["mkfs.ext4", "-q", self.image], check=True)
        self.mount()

    def mount(self):
        subprocess.run(["mount", "-o", "loop", self.image, self.mounted], check=True)

    def cut(self):
        """From here on nothing gets to the disk, not even the journal."""
        fd = os.open(self.mounted, os.O_RDONLY)
        fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        os.close(fd)

    def unmount(self):
        """What was not synced is gone after this; users may be slow to let go."""
        for attempt in range(100):
            if subprocess.run(["umount", self.mounted], check=attempt == 99,
                              capture_output=attempt < 99).returncode == 0:
                return
            time.sleep(0.1)

    def remove(self):
        self.unmount()


def halt(pid):
    """SIGSTOP, and wait for it: a postmaster that is stopped starts nobody else."""
    try:
        os.kill(pid, signal.SIGSTOP)
    except ProcessLookupError:
        return
    end = time.time() + 10
    while state(pid) not in "TZX" and time.time() < end:
        time.sleep(0.005)


def connect(dsn, seconds):
    """A connection, as soon as the server takes one."""
    end = time.time() + seconds
    while True:
        try:
            return psycopg.connect(dsn, autocommit=True)
        except psycopg.OperationalError:
            if time.time() > end:
                raise
            time.sleep(0.02)


def roll_back_prepared(conn):
    """Whose locks nothing else would end.  (In a database of SQL_ASCII a name is bytes.)"""
    for command, in conn.execute("SELECT format('ROLLBACK PREPARED %L', gid)"
                                 " FROM pg_prepared_xacts").fetchall():
        conn.execute(command)


class Server:
    """A cluster in a directory of its own, reached over a unix socket."""

    def __init__(self, settings, power=False, follow=None, make_disk=Disk):
        """follow: make it a standby of that server, with its settings.
        power: its data directory is on what make_disk(directory) returns."""
        self.bin = bindir()
        self.user = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
        self.top = tempfile.mkdtemp(prefix="sfkill")
        os.chmod(self.top, 0o755)
        self.disk = make_disk(self.top) if power else None
        self.data = os.path.join(self.disk.mounted if power else self.top, "data")
        self.log = os.path.join(self.top, "log")
        if self.user:
            entry = pwd.getpwnam("postgres")
            os.chown(self.top, entry.pw_uid, entry.pw_gid)
            if power:
                os.chown(self.disk.mounted, entry.pw_uid, entry.pw_gid)
        if follow:
            self.call("pg_basebackup", "-D", self.data, "-d", follow.dsn, "-R",
                      "-c", "fast", "-X", "stream")
        else:
            self.call("initdb", "-D", self.data, "-A", "trust", "-U", "postgres",
                      *(self.disk.initdb if power else self.without_checksums()))
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="ascii") as conf:
            conf.write(f"listen_addresses = ''\nunix_socket_directories = '{self.top}'\n")
            conf.write(f"securefile.key_command = 'echo model {'5a' * 32}'\n")
            conf.writelines(f"{name} = {value}\n" for name, value in settings.items())
        if power:
            os.sync()
        self.dsn = f"host={self.top} dbname=postgres user=postgres"
        self.log_seen = 0

    def call(self, program, *args):
        """Run a program of the server's, and return its output."""
        done = subprocess.run([os.path.join(self.bin, program), *args], cwd="/",
                              capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              check=False, **self.user)
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed: {done.stdout}{done.stderr}")
        return done.stdout

    def without_checksums(self):
        """18 makes clusters with data checksums, and what damages a page has none for it."""
        option = "--no-data-checksums"
        return [option] if option in self.call("initdb", "--help") else []

    def start(self):
        """Start it; a dead server's last children may need a moment to go."""
        for attempt in range(200):
            try:
                self.call("pg_ctl", "-D", self.data, "-l", self.log, "-w", "-t", "180", "start")
                return
            except RuntimeError as error:
                if attempt == 199 or "pre-existing shared memory" not in str(error):
                    raise
                time.sleep(0.3)

    def stop(self, mode="fast"):
        self.call("pg_ctl", "-D", self.data, "-m", mode, "-w", "stop")

    def postmaster(self):
        with open(os.path.join(self.data, "postmaster.pid"), encoding="ascii") as file:
            return int(file.readline())

    def kill_all(self, postmaster=None, reaped=True):
        """SIGKILL of the postmaster and of all its children.  reaped: wait until their
        numbers are free, as whoever looks at postmaster.pid wants it."""
        postmaster = postmaster or self.postmaster()
        halt(postmaster)
        victims = [postmaster] + children(postmaster)
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        end = time.time() + 180
        while any(os.path.exists(f"/proc/{pid}") if reaped else is_running(pid) for pid in victims) and time.time() < end:
            time.sleep(0.01)

    def cut_power(self):
        """The disk stops, then all processes; the disk comes back without them."""
        postmaster = self.postmaster()
        self.disk.cut()
        time.sleep(0.1)
        self.kill_all(postmaster)
        self.disk.unmount()
        self.disk.mount()

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

    def wait_for_death(self, seconds):
        """Wait for the postmaster to say that a process of its was killed."""
        end = time.time() + seconds
        while time.time() < end:
            with open(self.log, encoding="utf-8", errors="replace") as file:
                file.seek(self.log_seen)
                if "was terminated by signal 9" in file.read():
                    return True
            time.sleep(0.02)
        return False

    def connect(self, seconds=180):
        """A connection, as soon as the server takes one."""
        return connect(self.dsn, seconds)

    def alarms(self):
        """Lines of the log since the last call that must not be there."""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            file.seek(self.log_seen)
            lines = file.readlines()
            self.log_seen = file.tell()
        return [line.strip() for line in lines if ALARM.search(line) and not NO_ALARM.search(line)]

    def tail(self, lines=30):
        if not os.path.exists(self.log):
            return ""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-lines:])

    def remove(self):
        if os.path.exists(os.path.join(self.data, "postmaster.pid")):
            self.kill_all()
        if self.disk:
            self.disk.remove()
        shutil.rmtree(self.top, ignore_errors=True)
