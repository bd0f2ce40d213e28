"""What the fuzzers of redo and of pages share: a cluster is made, used and stopped
once; then, again and again, something is damaged in a copy of it, and a server works
with that by itself (postgres --single), which takes a moment only."""

import argparse
import glob
import os
import random
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "model"))

import option_words
from server import Server

SETTINGS = {"shared_preload_libraries": "'securefile'", "securefile.monitor": "off",
            "autovacuum": "off", "fsync": "off", "full_page_writes": "off",
            "checkpoint_timeout": "1h", "max_wal_size": "4GB", "shared_buffers": "'16MB'",
            "allow_in_place_tablespaces": "on", "log_min_messages": "warning",
            "wal_level": "replica", "max_connections": "20", "log_min_error_statement": "panic"}

# what must not be in a server's log, whatever is damaged
NEVER = re.compile(r"TRAP|Sanitizer|runtime error|wrong bytes|unreadable: witness|"
                   r"findings: witness|cannot be used: witness|terminated by signal", re.I)

# of some seeds compressible, of some not, of some the one and then the other
BLOB = """
CREATE FUNCTION noise(seed int, len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
	SELECT substring(string_agg(block, '') FOR len)
	FROM (SELECT string_agg(sha512(convert_to(seed || ':' || i, 'SQL_ASCII')), '') AS block
			FROM generate_series(0, least(len, 160000) / 64) i) b, generate_series(0, len / 160000) n
$$;
CREATE FUNCTION text(seed int, len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
	SELECT substring(decode(repeat(md5(seed || ':' || len), len / 16 + 1), 'hex') FOR len)
$$;
CREATE FUNCTION blob(seed int, len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE seed % 4 WHEN 0 THEN public.noise(seed, len)
		WHEN 1 THEN public.noise(seed, len / 2) || public.text(seed, len - len / 2)
		ELSE public.text(seed, len) END
$$;
"""


class Failed(Exception):
    """Something happened that must not."""


def read_kept(name, options):
    """The damages that a fuzzer tries in every run, or some of them."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", name, "kept")
    with open(path, encoding="ascii") as file:
        kept = [line.split() for line in file if line.strip() and not line.startswith("#")]
    if options.kept is None:
        return kept
    return random.Random(options.seed).sample(kept, min(options.kept, len(kept)))


def one_line(sql):
    """The single-user server takes a statement a line."""
    return " ".join(sql.split()) + "\n"


# every value of some tables is right, or cannot be read; rows with one id have the same one
READ = one_line("""
DO $$ DECLARE t text; r record; ok bool; BEGIN
	FOREACH t IN ARRAY array[TABLES] LOOP
		IF to_regclass(t) IS NULL THEN CONTINUE; END IF;
		FOR r IN EXECUTE 'SELECT DISTINCT id, size FROM ' || t LOOP
			BEGIN
				EXECUTE format('SELECT bool_and(doc::bytea = blob(id, size)) FROM %I WHERE id = %s', t, r.id)
					INTO ok;
				IF NOT ok THEN RAISE LOG 'wrong bytes in % %', t, r.id; END IF;
			EXCEPTION WHEN OTHERS THEN
				RAISE LOG 'unreadable: % % % %', t, r.id, SQLSTATE, SQLERRM;
			END;
		END LOOP;
	END LOOP; END $$;
""")


def read(*tables):
    return READ.replace("TABLES", ", ".join(f"'{table}'" for table in tables))


def same(a, b):
    return a.st_size == b.st_size and a.st_mtime_ns == b.st_mtime_ns


def mirror(source, target):
    """Make a copy again what it was; what has not been written to has its old time."""
    def relative(top):
        return {os.path.join(path, name)[len(top):] for path, names, files in os.walk(top)
                for name in names + files}
    wanted = relative(source)
    for path in sorted(relative(target) - wanted, reverse=True):
        (os.rmdir if os.path.isdir(target + path) else os.unlink)(target + path)
    for path in sorted(wanted):
        is_new = not os.path.exists(target + path)
        now = os.stat(source + path)
        if os.path.isdir(source + path):
            if is_new:
                os.mkdir(target + path, 0o700)
        elif is_new or not same(now, os.stat(target + path)):
            shutil.copy2(source + path, target + path)
        if is_new:
            os.chown(target + path, now.st_uid, now.st_gid)


def used_bytes(data):
    return int(subprocess.check_output(["du", "-sk", data], text=True).split()[0]) * 1024


class Trials:
    """One damage after another."""

    def __init__(self, base, options):
        self.base, self.options = base, options
        self.work = os.path.join(base.top, "work")
        self.reports = os.path.join(base.top, "report")
        self.env = dict(os.environ)
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
            self.env[name] = f"{os.environ[name]}:log_path={self.reports}"

    def copy(self):
        if os.path.exists(self.work):
            mirror(self.base.data, self.work)
        else:
            subprocess.run(["cp", "-a", self.base.data, self.work], check=True)

    def work_with(self, damage, sql):
        """Let a server work with a damaged copy; returns its exit code, and its log."""
        self.copy()
        if damage:
            damage(self.work)
        try:
            done = subprocess.run([os.path.join(self.base.bin, "postgres"), "--single",
                                   "-D", self.work, "postgres"],
                                  input=sql, capture_output=True, text=True,
                                  errors="replace", cwd="/", env=self.env, check=False,
                                  timeout=self.options.patience, **self.base.user)
        except subprocess.TimeoutExpired as late:
            raise Failed(f"no end after {self.options.patience} s:\n"
                         f"{(late.stderr or b'').decode(errors='replace')[-3000:]}") from late
        log = done.stderr + done.stdout
        reports = glob.glob(self.reports + ".*")
        for path in reports:
            with open(path, encoding="utf-8", errors="replace") as file:
                log += file.read()
            os.unlink(path)
        if reports or NEVER.search(log):
            raise Failed(log[-8000:])
        return done.returncode, log

    def until_time_is_up(self, one):
        """Call one(number) as long as the options say."""
        number, end = self.options.first, time.time() + self.options.seconds
        while time.time() < end or number - self.options.first < self.options.least:
            one(number)
            number += 1


def begin(conn):
    """What all clusters have first."""
    conn.execute("CREATE EXTENSION securefile")
    conn.execute(BLOB)
    conn.execute("CREATE TABLESPACE elsewhere LOCATION ''")


def load(conn, sql, options):
    """Statements, one after the other, each a transaction.  Each column gets a compression
    by lot, and some of them another one in between.  Which ones deduplicate they say themselves."""
    rng = random.Random(f"{options.seed} compression")
    sql = re.sub(r"\bCOMPRESSION\b", lambda _: option_words.some_words(rng).replace(", deduplicate", ""), sql)
    for statement in sql.split(";\n"):
        if statement.strip():
            conn.execute(statement)


def use_sanitizers():
    """The environment of servers: the sanitized one, if there is one."""
    os.environ.setdefault("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=1")
    os.environ.setdefault("UBSAN_OPTIONS", "print_stacktrace=1:abort_on_error=1")
    if os.environ.get("SECUREFILE_SANITIZED"):
        os.environ["PATH"] = os.environ["SECUREFILE_SANITIZED"] + ":" + os.environ["PATH"]


def main(name, prepare, run):
    """prepare(server, options) works and stops it; run(options, server) tries."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--least", type=int, default=10, help="damages to be tried in any case")
    parser.add_argument("--kept", type=int,
                        help="so many of the kept damages, by lot (default all)")
    parser.add_argument("--seed", default=str(int(time.time())))
    parser.add_argument("--first", type=int, default=0, help="number of the first damage")
    parser.add_argument("--patience", type=float, default=120, help="seconds for one server")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    use_sanitizers()
    print(f"seed {options.seed}", flush=True)
    base = Server(SETTINGS)
    try:
        prepare(base, options)
        run(options, base)
        return 0
    except Failed as failed:
        print(f"FAILED: {failed}\nagain: {name} --seed {options.seed} --first NUMBER --least 1"
              " --seconds 0 --verbose")
        return 1
    finally:
        base.remove()
