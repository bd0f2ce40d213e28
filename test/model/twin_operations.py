"""What the test of twins does: statements with blanks, and what takes more than one.

Blanks: @t any table, @c one of its columns; @u, @d another one, and @x, @e a third,
neither of them with children; @l, @m a table with rows of its own and its column, @i its index;
@k, @p, @n id, part, note; @w which rows; @v a value, @s a short one, @L a length,
@S a seed; @o the column's type.  ~ and <<a|b>> see twin_session.
"""

import os
import re

import kept
from client import Mismatch
from twin_session import CANCELLED, Handle, Undone

MAX = 3 * 1024 * 1024
POINTS = dict.fromkeys([
    "io_open", "flush_before_write", "data_record", "lend_memory", "lend_before_mark", "lend_after_mark", "grow_before",
    "grow_after_zero", "grow_after_record", "page_extend", "create_before_record", "create_after_record",
    "grow_before_files", "commit_before_flush", "commit_data_in_flight", "commit_after_data", "commit_before_entries",
    "data_written", "data_noted", "data_logged",
    "commit_after_alloc", "commit_before_record", "move_chunk", "move_done", "encode", "decode"], ["error"]) | {
        "io_write": ["error", "enospc", "short"], "io_extend": ["error", "enospc"],
        "io_promise": ["error", "enospc", "enotsup"], "io_submit": ["error", "eagain"]}

COLUMNS = "id int, part int DEFAULT 0, note int CHECK (note >= 0)"
KEY = "PRIMARY KEY (id, part)"
MADE = {
    "t1": f"CREATE TABLE ~.t1 ({COLUMNS}, doc @o, doc2 @o, {KEY})",
    "t2": f"CREATE TABLE ~.t2 (doc2 @o, {COLUMNS}, doc @o, {KEY})",
    "p": f"CREATE TABLE ~.p ({COLUMNS}, doc @o, {KEY}) PARTITION BY LIST (part)",
    "p_0": "CREATE TABLE ~.p_0 PARTITION OF ~.p FOR VALUES IN (0)",
    "p_1": "CREATE TABLE ~.p_1 PARTITION OF ~.p FOR VALUES IN (1)",
    "h": f"CREATE TABLE ~.h ({COLUMNS}, doc @o, doc2 @o, {KEY})",
    "h_c": f"CREATE TABLE ~.h_c ({KEY}) INHERITS (~.h)",
    "log": f"CREATE TABLE ~.log ({COLUMNS}, doc @o, {KEY})",
    "g": f"CREATE TABLE ~.g ({COLUMNS}, doc @o, doc2 @o, {KEY});"
         "CREATE TRIGGER a_before BEFORE INSERT OR UPDATE ON ~.g FOR EACH ROW EXECUTE FUNCTION ~.before();"
         "CREATE TRIGGER zz_after AFTER INSERT OR UPDATE OR DELETE ON ~.g FOR EACH ROW EXECUTE FUNCTION ~.after()",
}
# What rows lose is noted, of the one twin
for made in set(MADE) - {"p"}:
    MADE[made] += ";<<%s|SELECT 2>>" % kept.watch(f"sf.{made}", "jsonb_build_object('id', $1.id, 'part', $1.part)")

# Weight, statement: those that only rows are changed by
ROWS = [
    (16, "INSERT INTO @t (id, part, note, @c) VALUES (@k, @p, @n, @v)"),
    (8, "INSERT INTO @t (id, part, note, @c) SELECT g, g % 2, @n, twin_bytes(@S + g, @L)"
        " FROM generate_series(@k, @k + 5) g ON CONFLICT DO NOTHING"),
    (5, "INSERT INTO @t (id, part, note, @c) SELECT id + @n, part, note, @d FROM @u"
        " ORDER BY id, part ON CONFLICT DO NOTHING"),
    (4, "INSERT INTO @t (id, part, note, @c) SELECT id + 1, part, note, @d || @s FROM @u ORDER BY id, part"
        " ON CONFLICT (id, part) DO UPDATE SET @c = excluded.@c, note = excluded.note"),
    (4, "INSERT INTO @t AS o (id, part, note, @c) VALUES (@k, @p, @n, @v)"
        " ON CONFLICT (id, part) DO UPDATE SET @c = o.@c || excluded.@c"),
    (14, "UPDATE @t SET @c = @v WHERE @w"),
    (8, "UPDATE @t SET @c = twin_bytes(id + @S, @L), note = @n WHERE @w RETURNING id, md5(@c::bytea)"),
    (8, "UPDATE @t SET @c = @c || @s WHERE @w AND length(@c) < 2000000"),
    (4, "UPDATE @t SET @c = @s || @c WHERE @w AND length(@c) < 2000000"),
    (6, "UPDATE @t SET @c = overlay(@c PLACING @s FROM 1 + @L % (length(@c)::int + 1)) WHERE @w AND @c IS NOT NULL"),
    (5, "UPDATE @t SET @c = overlay(@c PLACING @s FROM 1 + @S % (length(@c)::int + 1) FOR 0) WHERE @w AND length(@c) BETWEEN 1 AND 2000000"),
    (4, "UPDATE @t SET @c = overlay(@c PLACING '' FROM 1 + @S % (length(@c)::int + 1) FOR @n * 1000) WHERE @w AND length(@c) > 0"),
    (4, "UPDATE @t SET @c = <<securefile_truncate(@c::securefile, @L::bigint)|public.twin_cut(@c, @L)>> WHERE @w"
        " AND length(@c) > 0 RETURNING id"),
    (3, "UPDATE @t SET note = note + 1 WHERE @w"),
    (3, "UPDATE @t SET @c = @m WHERE @w"),
    (5, "UPDATE @t t SET @c = u.@d FROM @u u WHERE u.id = t.id + @n - 3 AND u.part = t.part"),
    (4, "UPDATE @t SET part = 1 - part WHERE @w"),
    (9, "DELETE FROM @t WHERE @w"),
    (4, "WITH gone AS (DELETE FROM @x WHERE @w RETURNING id, part, note, @e) INSERT INTO @t (id, part, note, @c)"
        " SELECT * FROM gone ORDER BY id, part ON CONFLICT DO NOTHING"),
    (5, "MERGE INTO @t t USING @u u ON t.id = u.id AND t.part = u.part WHEN MATCHED AND t.note < 3 THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET @c = u.@d WHEN NOT MATCHED THEN INSERT (id, part, note, @c)"
        " VALUES (u.id, u.part, u.note, u.@d)"),
    (3, "TRUNCATE @t"),
]

# Those that fail in the middle
BROKEN = [
    (2, "UPDATE @t SET @c = twin_bytes(@S, @L), note = 10 / (id - @k)"),
    (2, "INSERT INTO @t (id, part, note, @c) SELECT g, g % 2, 9 / (g - 36), twin_bytes(g, @L)"
        " FROM generate_series(30, 30 + @n) g"),
]

DEFINITIONS = [
    (7, "TRUNCATE @t"), (2, "TRUNCATE @t, @u"), (2, "TRUNCATE ONLY @l"),
    (4, "DROP TABLE @t"), (2, "DROP TABLE @t CASCADE"),
    (4, "ALTER TABLE @t DROP COLUMN @c"),
    (3, "ALTER TABLE @t ADD COLUMN doc @o"), (3, "ALTER TABLE @t ADD COLUMN doc2 @o"),
    (1, "ALTER TABLE @t ADD COLUMN doc2 @o DEFAULT decode(repeat('ab', @L / 10), 'hex')"),
    (1, "ALTER TABLE @t ADD COLUMN doc2 @o DEFAULT twin_fresh(@S, @L)"),
    (2, "ALTER TABLE @t ALTER @c TYPE bytea"),
    (6, "ALTER TABLE @t ALTER @c TYPE @o"),
    (1, "ALTER TABLE @t ALTER @c TYPE @o USING substring(@c FROM 2)"),
    (1, "ALTER TABLE @t ALTER note TYPE bigint; ALTER TABLE @t ALTER note TYPE int"),
    (3, "<<SELECT securefile_rewrite('@t', '@c')|SELECT 1>>"),
    (2, "<<SELECT securefile_rewrite('@t', '@c', 'logging')|SELECT 1>>"),
    (2, "<<SELECT securefile_rewrite('@t', '@c', 'filesystem_like_logging')|SELECT 1>>"),
    (3, "<<SELECT securefile_rewrite_some('@l', '@m', 1 + @L)|SELECT 1>>"),
    (3, "<<SELECT securefile_new_key('@l', '@m', @n > 4)|SELECT 1>>"),
    (4, "SELECT public.twin_train('@l', '@m')"),
    (2, "<<SELECT securefile_set_tablespace('@l', '@m', 'twins')|SELECT 1>>"),
    (1, "<<SELECT securefile_set_tablespace('@l', '@m', 'pg_default')|SELECT 1>>"),
    # its indexes stay: of a rollback PostgreSQL itself leaves entries in them that lead nowhere
    (2, "ALTER TABLE @l SET TABLESPACE twins; REINDEX TABLE @l"),
    (2, "ALTER TABLE @l SET TABLESPACE pg_default; REINDEX TABLE @l"),
    (2, "ALTER TABLE @l SET UNLOGGED"), (1, "ALTER TABLE @l SET LOGGED"),
    (3, "ALTER TABLE ~.p DETACH PARTITION ~.p_1"), (3, "ALTER TABLE ~.p ATTACH PARTITION ~.p_1 FOR VALUES IN (1)"),
    (1, "ALTER TABLE ~.h_c NO INHERIT ~.h"), (1, "ALTER TABLE ~.h_c INHERIT ~.h"),
    (2, "CREATE TABLE ~.made AS SELECT id, part, note, @d AS doc FROM @u; ALTER TABLE ~.made ADD PRIMARY KEY (id, part)"),
    (1, "CREATE TABLE ~.made (LIKE @u INCLUDING ALL)"),
    (1, "CREATE UNLOGGED TABLE ~.made AS SELECT id, part, note, @d AS doc FROM @u; ALTER TABLE ~.made ADD PRIMARY KEY (id, part)"),
    (2, "ALTER TABLE ~.t1 RENAME TO t; ALTER TABLE ~.t2 RENAME TO t1; ALTER TABLE ~.t RENAME TO t2"),
    (1, "ALTER TABLE @t RENAME doc TO doc3; ALTER TABLE @t RENAME doc2 TO doc; ALTER TABLE @t RENAME doc3 TO doc2"),
    (1, "DROP INDEX IF EXISTS ~.i; CREATE INDEX i ON @l (length(@m))"),
    (1, "DROP INDEX IF EXISTS ~.i; CREATE INDEX i ON @l USING hash (@m)"),
    (1, "REINDEX TABLE @l"), (1, "ANALYZE @l"), (2, "CLUSTER @l USING @i"),
    (1, "<<SELECT securefile_usage('@l', '@m')|SELECT 1>>"),
    (3, "SELECT public.twin_parallel('@l', '@m')"),
]

# Outside of transactions only
ALONE = [
    (4, "VACUUM FULL @l"), (3, "VACUUM @l"), (3, "CLUSTER @l USING @i"),
    (3, "<<SELECT securefile_maintain('@l', '@m')|SELECT 1>>"), (1, "CHECKPOINT"),
    (3, "<<CALL securefile_rewrite_online('@l', '@m', 1 + @L, @n > 4)|SELECT 1>>"),
]


class Filler:
    """Fills the blanks of statements; the same blank of one statement the same way."""

    def __init__(self, session):
        self.s = session
        self.rng = session.rng

    def length(self):
        low, high = self.rng.choices([(0, 20), (20, 5000), (5000, 70000), (70000, 400000), (400000, MAX)],
                                     [2, 4, 6, 6, 1])[0]
        return self.rng.choice([self.rng.randrange(low, high)] * 5 + [131072, 4096, 262144])

    def options(self):
        words = [self.rng.choice(w) for w in (
            ["", "", "logging", "filesystem_like_logging"], ["", "nocache", "cache"],
            ["", "", "disable_storage_in_row"],
            ["", "nocompress", "compress_low", "compress_medium", "compress_high"],
            ["", "encrypt"] if os.environ.get("SECUREFILE_ENCRYPTS") else [""],
            ["", "hash", "no_hash"], ["", "", "deduplicate", "keep_duplicates"],
            ["", "", "", f"'retention 7 days', 'max_size {kept.AMPLE}'"])]
        words = ", ".join(w for w in words if w)
        return f"<<securefile{words and f'({words})'}|bytea>>"

    def pick(self, kind):
        """A table, and a column of it if it has any."""
        found = [n for n, t in sorted(self.s.tables.items())
                 if not (kind == "l" and t.kind != "r") and not (kind in "ux" and n == "h")]
        if not found:
            raise Undone
        hot = [n for n in found if n in self.s.hot]
        name = self.rng.choice(hot if hot and self.rng.random() < 0.7 else found)
        return f"~.{name}", self.rng.choice(self.s.tables[name].columns or ["doc"])

    def value(self):
        kind = self.rng.random()
        return "NULL" if kind < 0.04 else f"twin_bytes({self.rng.randrange(10**6)}, {self.length()})"

    def where(self):
        return self.rng.choice([f"id = {self.rng.randrange(14)}", f"id % 3 = {self.rng.randrange(3)}",
                                f"note < {self.rng.randrange(9)}", "true", f"id > {self.rng.randrange(14)}"])

    def fill(self, template):
        blanks = {"o": self.options, "v": self.value, "w": self.where, "L": lambda: str(self.length()),
                  "s": lambda: f"twin_bytes(7, {self.length() // 4})"}
        numbers = {"k": 12, "p": 2, "n": 9, "S": 10**6}
        fixed = {}

        def one(match):
            blank = match.group(1)
            pair = next((p for p in ("tc", "ud", "xe", "lm") if blank in p), None)
            if blank in fixed:
                return fixed[blank]
            if pair:
                fixed.update(zip(pair, self.pick(pair[0])))
                fixed["i"] = fixed[pair[0]].replace("~.", "") + "_pkey"
            elif blank == "o":
                return self.options()
            else:
                fixed[blank] = (str(self.rng.randrange(numbers[blank])) if blank in numbers
                                else blanks[blank]())
            return fixed[blank]
        return re.sub(r"@([a-zA-Z])", one, template)

    def choose(self, table):
        return self.fill(self.rng.choices([t for _, t in table], [w for w, _ in table])[0])


# ---- operations ----

def rows(s):
    s.do(Filler(s).choose(ROWS))


def broken(s):
    s.do(Filler(s).choose(BROKEN), guard=s.rng.random() < 0.8)


def definition(s):
    s.do(Filler(s).choose(DEFINITIONS), guard=s.rng.random() < 0.6)


def create(s):
    """One of the tables that are not there."""
    missing = [name for name in MADE if name not in s.tables]
    if missing:
        s.do(Filler(s).fill(MADE[s.rng.choice(missing)]), guard=s.rng.random() < 0.6)


def exceptions(s):
    """Subtransactions of a DO block, some of which fail."""
    fill = Filler(s)
    some = [re.sub(" RETURNING (?!id, part).*", "", fill.choose(ROWS + BROKEN)) for _ in range(4)]
    fails = s.rng.choice(["", "PERFORM 1 / 0;"])
    s.do(f"DO $do$ BEGIN {some[0]}; BEGIN {some[1]}; {some[2]}; {fails} EXCEPTION WHEN division_by_zero"
         f" OR integrity_constraint_violation THEN NULL; END; {some[3]}; END $do$", guard=s.rng.random() < 0.7)


def copy(s):
    """COPY of a table to a file, and of the file to another one."""
    form = s.rng.choice(["text", "binary"])
    path = f"'{s.directory}/twins.~' (FORMAT {form})"
    s.do(Filler(s).fill(f"COPY (SELECT id + 3, part, note, @d FROM @u WHERE length(@d) < 500000) TO {path};"
                        f"DELETE FROM @t WHERE id > 8; COPY @t (id, part, note, @c) FROM {path}"), guard=True)


def cancelled(s):
    """A statement that may be cancelled at any moment; if it was, its twin is not tried."""
    text = Filler(s).choose(ROWS)
    s.sql("SAVEPOINT g")
    serial = s.start(text)
    s.sql(f"SET LOCAL statement_timeout = {s.rng.randint(1, 15)}")
    ours = s.attempt(s.twin(text, "sf"))
    # what ends it is a statement, too
    status, error = s.attempt("SET LOCAL statement_timeout = 0") if ours[0] is not None else ours
    if status is not None:
        s.same(text, ours, s.attempt(s.twin(text, "ba")))
    elif error.sqlstate != CANCELLED and not s.may_fail(error, True):
        raise error
    else:
        s.undo_guard(serial)
    s.sql("RELEASE g")


def regret(s):
    """Rows of a table, what is done to it behind a savepoint, rows of others: all taken back."""
    liked, depth = s.hot, 0
    s.hot = [s.rng.choice(sorted(s.tables) or ["none"])]
    try:
        for operation in [rows] * s.rng.randrange(3) + [None, definition] + [rows] * s.rng.randrange(6):
            if operation is None:
                depth = len(s.saved)
                s.savepoint()
                continue
            s.look()
            try:
                operation(s)
            except Undone:
                if len(s.saved) <= depth:
                    return
            if operation is definition:
                s.hot = liked
        if len(s.saved) > depth:
            s.rollback_to(depth)
            s.compare()
    finally:
        s.hot = liked


def fault(s):
    """A point fails once, of this transaction's many; at first where it can go on after it."""
    if s.faults:
        rows(s)
        point = s.rng.choice(sorted(POINTS) + ["io_write"] * 12)
        s.injected = True
        s.sql(f"SELECT securefile_fault('{point}', '{s.rng.choice(POINTS[point])}', skip => {s.rng.choice([0, 0, 1, 4])},"
              f" times => 1, pid => {s.conn.info.backend_pid})")
        for _ in range(4):
            try:
                s.do(Filler(s).choose(ROWS), guard=True)
            except Undone:
                pass


def undelete(s):
    """A row gets a value that another one has lost, and its twin the same bytes."""
    columns = s.keeping()
    if not columns:
        return
    name, column = s.rng.choice(columns)
    found = s.sql(f"SELECT loc, encode(document::bytea, 'hex') FROM (SELECT md5((document::raw)::bytea)::uuid AS loc, document"
                  f" FROM securefile_removed('{name}', '{column}') WHERE length < 30000) r ORDER BY loc LIMIT 5")
    if found:
        loc, data = s.rng.choice(found)
        ours = f"SELECT document FROM securefile_removed('{name}', '{column}') WHERE md5((document::raw)::bytea)::uuid = '{loc}'"
        s.do(Filler(s).fill(f"INSERT INTO @t (id, part, note, @c) VALUES (@k, @p, @n, <<({ours})|'\\x{data}'::bytea>>)"),
             guard=True)


def declare(s):
    s.declare("WITH HOLD" if s.rng.random() < 0.2 else "",
              Filler(s).fill("SELECT id, part, md5(@m::bytea) FROM ONLY @l"))


def fetch(s):
    if s.cursors:
        s.fetch(s.rng.choice(sorted(s.cursors)))


# ---- handles ----

def open_handle(s):
    """Of a value, or of a new file; its content goes to the shadow as well."""
    places = [(n, c) for n, t in sorted(s.tables.items()) if t.kind == "r" for c in t.stored()]
    if not places:
        return
    name, column = s.rng.choice(places)
    found = s.sql(f"SELECT id, part FROM ONLY ba.{name} WHERE {column} IS NOT NULL ORDER BY 1, 2")
    if found and s.rng.random() < 0.7:
        where = "WHERE (id, part) = (%s, %s)" % s.rng.choice(found)
        ours, content = (f"securefile_open({column}, 'rw') FROM ONLY sf.{name} {where}",
                         f"{column} FROM ONLY ba.{name} {where}")
    else:
        ours, content = f"securefile_create('sf.{name}', '{column}')", "''::bytea"
    fd = s.do(f"<<SELECT {ours}|SELECT 0>>", guard=True)[0][0][0]
    s.sql(f"INSERT INTO ba.shadow SELECT {fd}, {content}")
    s.handles[fd] = Handle(fd, s.tick())


def use(s, handle, ours, theirs):
    """Do a thing to a handle and to its shadow."""
    try:
        return s.do(f"<<{ours}|{theirs}>>", guard=True, handle=handle)
    except Undone:
        s.handles.pop(handle.fd, None)
        raise


def use_handle(s):
    if not s.handles:
        open_handle(s)
        return
    handle = s.handles[s.rng.choice(sorted(s.handles))]
    fill, fd = Filler(s), handle.fd
    at = s.rng.choice([0, 131072, fill.length(), fill.length()])
    shadow = f"WHERE fd = {fd}"
    how = s.rng.choice(["write"] * 4 + ["truncate", "read", "read", "store", "store", "close"])
    if how == "write":
        piece = f"twin_bytes({s.rng.randrange(10**6)}, 1 + {fill.length() // 3})"
        use(s, handle, f"SELECT securefile_seek({fd}, {at}, 0), securefile_write({fd}, {piece})",
            f"UPDATE ba.shadow SET content = twin_put(content, {at}, {piece}) {shadow}")
        handle.written = s.tick()
    elif how == "truncate":
        use(s, handle, f"SELECT securefile_truncate({fd}, {at}::bigint)",
            f"UPDATE ba.shadow SET content = twin_cut(content, {at}) {shadow}")
        handle.written = s.tick()
    elif how == "read":
        ours, theirs = use(s, handle, f"SELECT securefile_seek({fd}, {at}, 0), md5(securefile_read({fd}, 300000))",
                           f"SELECT {at}::bigint, md5(substring(content FROM {at} + 1 FOR 300000)) FROM ba.shadow {shadow}")
        if ours != theirs:
            raise Mismatch(f"handle {fd} at {at}: securefile {ours}, bytea {theirs}")
    elif how == "close":
        s.handles.pop(fd)
        s.do(f"<<SELECT securefile_close({fd})|DELETE FROM ba.shadow {shadow}>>", guard=True, handle=handle)
    else:
        s.handles.pop(fd)
        value = f"<<securefile_finish({fd})|(SELECT content FROM ba.shadow {shadow})>>"
        s.do(fill.fill("INSERT INTO @t (id, part, note, @c) VALUES (@k, @p, 0, " + value + ")"
                       " ON CONFLICT (id, part) DO UPDATE SET @c = excluded.@c"), guard=True, handle=handle)


OPERATIONS = [
    (60, rows), (6, broken), (14, definition), (8, create), (6, exceptions), (2, copy), (4, cancelled), (3, fault), (8, regret),
    (5, lambda s: s.compare(sorted(s.hot))), (3, declare), (4, fetch), (2, open_handle), (12, use_handle), (4, undelete)]
