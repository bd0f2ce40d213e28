"""What is done with tables of securefiles, in sections that can each be run alone.

A section needs a table with the rows of START, and perhaps more; it is a list of steps,
most of them transactions.  Rows name what they hold (see SecurefileBytes.pm), and each
step says what it makes of them: effects are functions that change {table: {id: name}}.
"""

import typing

FORMS = {"l": "securefile", "f": "securefile(filesystem_like_logging, nocache)",
         "c": "securefile(compress_low)",
         "z": "securefile(filesystem_like_logging, nocache, compress_medium)",
         "e": "securefile(encrypt, compress_low)"}
# of the same logging mode
OTHER = {"l": FORMS["c"], "f": FORMS["z"], "c": "securefile(compress_high)", "z": FORMS["f"],
         "e": FORMS["l"]}
START = {1: "page", 2: "mid", 3: "other"}


class Step(typing.NamedTuple):
    """Statements, and how their transaction ends; end None: each by itself."""
    sql: list
    effects: list
    end: typing.Optional[str] = "COMMIT"


class Section(typing.NamedTuple):
    """before: rows that the table has besides those of START."""
    steps: list
    before: dict = {}


# ---- statements with their effects ----

def put(table, key, name):
    def effect(tables):
        tables[table][key] = name
    return insert(table, key, name), effect


def insert(table, key, name):
    return f"INSERT INTO {table} SELECT {key}, name, data FROM bytes WHERE name = '{name}'"


def change(sql, table, key, name):
    def effect(tables):
        if key in tables[table]:
            tables[table][key] = name
    return sql, effect


def delete(table, *keys):
    def effect(tables):
        for key in keys:
            tables[table].pop(key, None)
    return f"DELETE FROM {table} WHERE id IN ({', '.join(map(str, keys))})", effect


def create(table, form):
    def effect(tables):
        tables[table] = {}
    return f"CREATE TABLE {table} (id int PRIMARY KEY, name text, doc {FORMS[form]})", effect


def truncate(table):
    return f"TRUNCATE {table}", lambda tables: tables[table].clear()


def drop(table):
    return f"DROP TABLE {table}", lambda tables: tables.pop(table)


def handle(table, key):
    """What the function by_handle() of nth.py stores."""
    return f"SELECT by_handle('{table}', {key})", lambda tables: tables[table].update({key: "joined"})


def copied(table):
    return f"COPY {table} (id, name, doc) FROM '{{rows}}'", lambda tables: tables[table].update(COPIED)


def loaded(table, key):
    """What went into a file of the server before."""
    return (f"SELECT by_file('{table}', {key}, '{{rows}}.saved')",
            lambda tables: tables[table].update({key: "mid"}))


COPIED = {70: "mid", 71: "page", 72: "small", 73: "other"}


def only(*sql):
    """Statements that leave the rows as they are."""
    return [(text, None) for text in sql]


# ---- steps ----

def step(*parts, end="COMMIT"):
    return Step([sql for sql, _ in parts], [effect for _, effect in parts if effect], end)


def bare(*sql):
    return Step(list(sql), [], None)


def wrong(table):
    return f"SELECT wrong('{table}')"


def sections(form):
    """All of them by name, for a table of a form whose name is the form's.  Their keys
    differ, so that all may be done one after the other."""
    t = form
    maintain = f"SELECT securefile_maintain('{t}', 'doc')"
    return {
        "insert": Section([
            step(put(t, 10, "small"), put(t, 11, "page"), put(t, 12, "mid")),
            bare(wrong(t))]),
        "large": Section([
            step(put(t, 20, "big")),
            bare(wrong(t))]),
        "update": Section([
            step(change(f"UPDATE {t} SET name = b.name, doc = b.data FROM bytes b"
                        " WHERE id = 2 AND b.name = 'other'", t, 2, "other")),
            step(change(f"UPDATE {t} SET name = 'joined', doc = doc || b.data::securefile FROM bytes b"
                        " WHERE id = 1 AND b.name = 'mid'", t, 1, "joined")),
            bare(wrong(t))]),
        "edit": Section([
            step(change(f"SELECT edit('{t}', 20)", t, 20, "edited")),
            bare(wrong(t))], {20: "big"}),
        "savepoint": Section([
            step(put(t, 30, "mid"), *only("SAVEPOINT s", insert(t, 31, "large"), "ROLLBACK TO s"),
                 put(t, 32, "page")),
            step(*only(insert(t, 33, "large")), end="ROLLBACK"),
            bare(maintain)]),
        "delete": Section([
            step(delete(t, 20)),
            step(delete(t, 3)),
            bare(maintain, maintain),
            step(put(t, 40, "other"))], {20: "big"}),
        "table": Section([
            step(create("x", form), put("x", 1, "mid")),
            step(truncate("x"), put("x", 1, "other")),
            bare(wrong("x")),
            step(*only("TRUNCATE x", insert("x", 2, "mid")), end="ROLLBACK"),
            step(drop("x")),
            step(*only(create("x", form)[0], insert("x", 1, "mid")), end="ROLLBACK")]),
        "handle": Section([
            step(handle(t, 50)),
            step(*only(f"SELECT given_up('{t}')"), end="COMMIT"),
            bare(wrong(t))]),
        "copy": Section([
            step(copied(t)),
            bare(f"COPY {t} (doc) TO '/dev/null'")]),
        "file": Section([
            step(("SELECT securefile_save(data::securefile, '{rows}.saved', true) FROM bytes WHERE name = 'mid'", None),
                 loaded(t, 95)),
            bare(wrong(t))]),
        "prepared": Section([
            step(put(t, 60, "mid"), delete(t, 2), end="PREPARE TRANSACTION 'p'"),
            step(*only(insert(t, 61, "mid")), end="PREPARE TRANSACTION 'q'"),
            bare(maintain)]),
        "rewrite": Section([
            step(*only(f"SELECT securefile_rewrite('{t}', 'doc')")),
            step(*only(f"ALTER TABLE {t} ALTER id TYPE bigint")),
            step(*only(f"ALTER TABLE {t} ALTER doc TYPE {OTHER[form]}")),
            step(*only(f"SELECT securefile_rewrite('{t}', 'doc')")),
            bare(f"VACUUM FULL {t}", wrong(t))]),
        "moved": Section([
            step(*only(f"SELECT securefile_set_tablespace('{t}', 'doc', 'place')")),
            step(put(t, 80, "mid")),
            step(*only(f"ALTER TABLE {t} SET TABLESPACE place")),
            step(*only(f"SELECT securefile_set_tablespace('{t}', 'doc', 'pg_default')"))]),
        "repair": Section([
            bare(f"SELECT count(*) FROM securefile_repair('{t}', 'doc', dry_run => false)",
                 f"SELECT count(*) FROM securefile_check('{t}', 'doc')"),
            step(put(t, 90, "page"))]),
        "read": Section([
            bare(wrong(t),
                 f"SELECT sum(length(piece)) FROM {t}, securefile_chunks(doc) piece",
                 f"SELECT md5(substring(doc FROM 3000000 FOR 2000000)) FROM {t} WHERE id = 20",
                 f"SELECT id, salvaged FROM {t}, LATERAL (SELECT count(*) AS salvaged"
                 " FROM securefile_salvage(doc)) s WHERE id = 20",
                 f"SELECT FROM securefile_usage('{t}', 'doc')")], {20: "big"})}


def all_sections(form):
    """The same with one that does all of them in one session."""
    found = sections(form)
    found["all"] = Section([one for section in found.values() for one in section.steps])
    return found
