#!/usr/bin/python3
"""Works like an archive of medical images, and measures it beside bytea in the same schema.

    archive.py [--quick] [--studies N] --results DIRECTORY --directory DIR CONNINFO

A study is stored in one transaction.  Series are read in order, single slices at random.
Every byte that is read is compared.  Then a tenth of the studies get a tombstone, and are
purged.  See README.md and schema.sql beside this file.
"""

import os
import random
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import part			# noqa: E402  it lies in the directory above
import report		# noqa: E402
from load.arguments import positive	# noqa: E402
from part import ENGINES, MB	# noqa: E402

SIDE = 512
SLICES, SERIES = 40, 2

TEXT = """A worked example: patients, studies, series, and slices of half a megabyte, in a
schema whose files are bytea (STORAGE EXTERNAL) or securefile. One session. A study of two
series with 40 slices each is stored in one transaction; the time of a checkpoint after all
of them is shown apart. Series are read in order through a view that hides tombstones; single
slices are drawn at random. A tombstone is an UPDATE of the study. Purging deletes the files
of a tenth of the studies; VACUUM and securefile_maintain() give their space back, and are
counted."""

# Of the table: key in the figures, heading.
COLUMNS = {"engine": "files", "ingest": "ingest, MB/s", "checkpoint": "checkpoint, s",
           "series": "series in order, MB/s", "slice": "one slice, median ms",
           "slice_99": "one slice, 99 % ms", "tombstone": "tombstone, ms",
           "purge": "purge, ms by slice", "space": "in use, MB",
           "space_after": "in use after the purge, MB"}


def slice_file(series, position):
    """A preamble as DICOM's, and 12-bit pixels: a smooth picture with noise on it."""
    lot = random.Random(f"{series}:{position}")
    head = bytes(128) + b"DICM" + f"{series:012d}{position:06d}".encode()
    pixels = bytearray(2 * SIDE * SIDE)
    pixels[0::2] = lot.randbytes(SIDE * SIDE)
    pixels[1::2] = b"".join(bytes([(row + position) // 40 % 16]) * SIDE for row in range(SIDE))
    return head + bytes(pixels)


class Archive:
    def __init__(self, options, engine):
        self.options, self.engine = options, engine
        self.conn = part.connect(options)
        self.conn.execute("CREATE EXTENSION IF NOT EXISTS securefile")
        self.conn.execute(f"CREATE SCHEMA archive_{engine}")
        self.conn.execute(f"SET search_path = archive_{engine}, public")
        self.make_schema(ENGINES[engine])
        self.series = 0
        self.figures = {"engine": engine}

    def make_schema(self, type_):
        with open(os.path.join(HERE, "schema.sql"), encoding="utf-8") as file:
            self.conn.execute(file.read().replace(":pixels", type_))
        if type_ == "bytea":
            self.conn.execute("ALTER TABLE slice ALTER file SET STORAGE EXTERNAL")

    # ---- writing ----

    def store_study(self, study, files):
        with self.conn.transaction():
            patient = study // 3
            self.conn.execute("INSERT INTO patient VALUES (%s, %s, '1970-01-01')"
                              " ON CONFLICT DO NOTHING", [patient, f"patient {patient}"])
            self.conn.execute("INSERT INTO study (study_id, patient_id) VALUES (%s, %s)",
                              [study, patient])
            for series, slices in files.items():
                self.conn.execute("INSERT INTO series VALUES (%s, %s, 'CT')", [series, study])
                for position, file in enumerate(slices):
                    self.conn.execute("INSERT INTO slice VALUES (%s, %s, %b)",
                                      [series, position, file])

    def ingest(self):
        taken, total = 0, 0
        for study in range(self.options.studies):
            files = {series: [slice_file(series, position) for position in range(SLICES)]
                     for series in range(SERIES * study, SERIES * (study + 1))}
            taken += part.seconds(self.store_study, study, files)
            total += sum(len(file) for slices in files.values() for file in slices)
        self.figures["ingest"] = total / MB / taken
        self.figures["checkpoint"] = part.seconds(self.conn.execute, "CHECKPOINT")

    # ---- reading ----

    def read_series(self, series):
        found = self.conn.execute(
            "SELECT position, file FROM current_slice WHERE series_id = %s ORDER BY position",
            [series], binary=True).fetchall()
        return [file for _, file in found]

    def retrieve(self, lot):
        taken, total = 0, 0
        for series in lot.sample(range(SERIES * self.options.studies), self.options.studies):
            begun = time.monotonic()
            files = self.read_series(series)
            taken += time.monotonic() - begun
            if files != [slice_file(series, position) for position in range(SLICES)]:
                raise RuntimeError(f"series {series} is not what was stored")
            total += sum(map(len, files))
        self.figures["series"] = total / MB / taken

    def one_slice(self, series, position):
        return part.value(self.conn, "SELECT file FROM current_slice"
                          " WHERE series_id = %s AND position = %s", series, position)

    def retrieve_slices(self, lot):
        times = []
        for _ in range(200 if self.options.quick else 2000):
            series = lot.randrange(SERIES * self.options.studies)
            position = lot.randrange(SLICES)
            begun = time.monotonic()
            file = self.one_slice(series, position)
            times.append(1000 * (time.monotonic() - begun))
            if file != slice_file(series, position):
                raise RuntimeError(f"slice {series}, {position} is not what was stored")
        self.figures["slice"] = statistics.median(times)
        self.figures["slice_99"] = statistics.quantiles(times, n=100)[98]

    # ---- tombstones ----

    def space(self):
        """What is in use, in MB: files of the table without free space."""
        usual = part.value(self.conn, "SELECT pg_total_relation_size('slice')")
        if self.engine == "bytea":
            return (usual - part.value(
                self.conn, "SELECT coalesce(sum(avail), 0)::bigint FROM pg_class,"
                " pg_freespace(reltoastrelid) WHERE oid = 'slice'::regclass")) / MB
        return (usual + part.value(
            self.conn, "SELECT file_bytes - free_bytes + metadata_bytes"
            " FROM securefile_usage('slice', 'file')")) / MB

    def remove(self, lot):
        gone = lot.sample(range(self.options.studies), max(1, self.options.studies // 10))
        tombstone = "UPDATE study SET removed = now() WHERE study_id = %s"
        self.figures["tombstone"] = statistics.median(
            1000 * part.seconds(self.conn.execute, tombstone, [study]) for study in gone)
        if self.read_series(SERIES * gone[0]):
            raise RuntimeError("a study with a tombstone is still seen")
        self.figures["space"] = self.space()
        files = len(gone) * SERIES * SLICES
        self.figures["purge"] = 1000 * part.seconds(self.purge, files) / files
        self.figures["space_after"] = self.space()

    def purge(self, expected):
        purged = part.value(self.conn, "SELECT purge(now())")
        if purged != expected:
            raise RuntimeError(f"{purged} files were purged, not {expected}")
        part.clean(self.conn, "slice", "file")

    def run(self):
        lot = random.Random(1)
        self.ingest()
        self.retrieve(lot)
        self.retrieve_slices(lot)
        self.remove(lot)
        return self.figures


def row(figures):
    return [figures["engine"], *(f"{figures[name]:.3g}" for name in list(COLUMNS)[1:])]


def panel(title, unit, name, measured):
    return {"title": title, "x": unit,
            "bars": [(one["engine"], one["engine"], one[name]) for one in measured]}


def main():
    parser = part.parser(__doc__.splitlines()[0])
    parser.add_argument("--studies", type=positive, help="of 80 slices, 42 MB (100; quick 5)")
    options = parser.parse_args()
    options.studies = options.studies or (5 if options.quick else 100)
    os.makedirs(options.results, exist_ok=True)
    measured = []
    with part.connect(options) as conn:
        conn.execute("CREATE EXTENSION IF NOT EXISTS pg_freespacemap")
        for engine in ENGINES:
            measured.append(Archive(options, engine).run())
            conn.execute(f"DROP SCHEMA archive_{engine} CASCADE")
            print("   " + ", ".join(row(measured[-1])), flush=True)
        report.bars(os.path.join(options.results, "archive.svg"), [
            panel("ingest", "MB/s", "ingest", measured),
            panel("series in order", "MB/s", "series", measured),
            panel("one slice", "median ms", "slice", measured)])
        report.part(options.results, "archive", "An archive of medical images", TEXT,
                    list(COLUMNS.values()), [row(one) for one in measured], ["archive.svg"],
                    measured, part.facts(conn, options, studies=options.studies))
    print(f"results: {options.results}")


if __name__ == "__main__":
    main()
