"""Writes what the programs of the benchmark have measured, and makes one page of it.

Each program is a part: the matrix, growth, and so on.  A part writes <part>.json (title,
text, table, names of plots, facts about the machine, and every measurement), <part>.md (the
table) and its plots (SVG).  index.html collects all parts that lie in the directory; each
program that ends makes it anew.
"""

import datetime
import glob
import html
import json
import os
import platform
import re

import matplotlib

matplotlib.use("svg")
# the same measurements make the same file, and text stays text
matplotlib.rcParams.update({"svg.hashsalt": "securefile", "svg.fonttype": "none",
                            "font.size": 8, "font.sans-serif": ["DejaVu Sans"]})
import matplotlib.pyplot as plt		# noqa: E402  the backend is chosen first

COLOURS = {"bytea": "#888888", "logging": "#1f6fb4", "filesystem_like": "#2a9d4f",
           "large_object": "#c0a060", "file": "#b05fb0", "null": "#000000",
           "wal": "#555577", "connection": "#bbbbbb", "bytea_lz4": "#d98880",
           "bytea_pglz": "#e6b0aa", "http": "#d35400", "http_no_flush": "#f0b27a",
           "fio": "#7b241c", "buffered": "#c0a060", "direct_sync": "#85c1e9",
           "direct_libaio": "#1f6fb4", "direct_io_uring": "#2a9d4f"}

# The engines of the plot that the README shows.
SUMMARY = ["bytea", "logging", "filesystem_like", "large_object", "file"]

# The parts that have a place on the page; others follow.
ORDER = ["matrix", "cost", "growth", "archive"]

STYLE = """body { font-family: sans-serif; max-width: 70em; margin: 2em auto }
td, th { padding: 0.1em 0.8em; text-align: left; vertical-align: top }
tr:nth-child(even) { background: #f2f2f2 }"""


# ---- facts ----

def first_line(path, pattern):
    with open(path, encoding="utf-8") as file:
        found = re.search(pattern, file.read())
    return found.group(1) if found else "unknown"


def facts(conn, commit):
    """Machine, settings, versions: what the numbers belong to."""
    settings = dict(conn.execute(
        "SELECT name, current_setting(name) FROM pg_settings"
        " WHERE source = 'configuration file' OR name LIKE 'securefile.%'"
        " ORDER BY 1").fetchall())
    for secret in ("securefile.key_command", "unix_socket_directories"):
        settings.pop(secret, None)
    return {"date": datetime.datetime.now().isoformat(timespec="seconds"), "commit": commit,
            "server": conn.execute("SELECT version()").fetchone()[0],
            "kernel": platform.release(), "processors": os.cpu_count(),
            "processor": first_line("/proc/cpuinfo", r"model name\s*: (.*)"),
            "memory": first_line("/proc/meminfo", r"MemTotal:\s*(.*)"), "settings": settings}


# ---- plots ----

def save(figure, path):
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def lines(path, panels, columns=3):
    """Panels beside each other: {"title", "x", "y", "lines": {engine: [(x, value), ..]}};
    "log": "x", "y" or "xy" has logarithmic axes, else y begins at 0."""
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(3.4 * columns, 2.7 * rows),
                                squeeze=False)
    for place, panel in zip(axes.flat, panels):
        for engine, points in panel["lines"].items():
            place.plot(*zip(*points), marker="o", markersize=3, label=engine,
                       color=COLOURS.get(engine, "#aa3333"))
        place.set(title=panel["title"], xlabel=panel["x"], ylabel=panel["y"])
        if "x" in panel["log"]:
            measured = sorted({x for points in panel["lines"].values() for x, _ in points})
            place.set_xscale("log")
            place.set_xticks(measured, [f"{x:g}" for x in measured])
            place.minorticks_off()
        if "y" in panel["log"]:
            place.set_yscale("log")
        else:
            place.set_ylim(bottom=0)
        place.legend(fontsize=6)
    for place in axes.flat[len(panels):]:
        place.axis("off")
    save(figure, path)


def bars(path, panels):
    """Panels beside each other: {"title", "x", "bars": [(label, engine, value), ..]}."""
    most = max(len(panel["bars"]) for panel in panels)
    figure, axes = plt.subplots(1, len(panels), figsize=(3.6 * len(panels), 1 + 0.16 * most),
                                squeeze=False)
    for place, panel in zip(axes.flat, panels):
        labels, engines, values = zip(*panel["bars"])
        place.barh(range(len(values)), values, color=[COLOURS[engine] for engine in engines])
        place.set_yticks(range(len(values)), labels, fontsize=6)
        place.invert_yaxis()
        place.set(title=panel["title"], xlabel=panel["x"])
    save(figure, path)


# ---- parts and the page ----

def markdown(headings, rows):
    lines_ = ["| " + " | ".join(headings) + " |", "|---" * len(headings) + "|"]
    lines_ += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines_) + "\n"


def rounded(one):
    return {key: round(value, 6) if isinstance(value, float) else value
            for key, value in one.items()}


def part(directory, name, title, text, headings, rows, plots, measured, facts_):
    """Writes a part, and the page with all parts that are there."""
    head = json.dumps({"title": title, "text": text, "headings": headings, "rows": rows,
                       "plots": plots, "facts": facts_})
    with open(os.path.join(directory, f"{name}.json"), "w", encoding="utf-8") as file:
        # a line for each measurement: small, and a change of one shows
        every = ",\n".join(json.dumps(rounded(one)) for one in measured)
        file.write(f'{head[:-1]},\n"measured": [\n{every}\n]}}\n')
    with open(os.path.join(directory, f"{name}.md"), "w", encoding="utf-8") as file:
        file.write(f"# {title}\n\n{text}\n\n{markdown(headings, rows)}")
    assemble(directory)


def html_row(cells, tag="td"):
    inside = "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells)
    return f"<tr>{inside}</tr>\n"


def fragment(one):
    images = "".join(f'<p><img src="{plot}" alt="{plot}"></p>\n' for plot in one["plots"])
    text = "".join(f"<p>{html.escape(words)}</p>\n" for words in one["text"].split("\n\n"))
    rows = html_row(one["headings"], "th") + "".join(html_row(row) for row in one["rows"])
    return (f"<h2>{html.escape(one['title'])}</h2>\n{text}{images}"
            f"<table>{rows}</table>\n")


def facts_tables(facts_):
    settings = "".join(html_row(pair) for pair in facts_["settings"].items())
    machine = "".join(html_row(pair) for pair in facts_.items() if pair[0] != "settings")
    return (f"<h2>Machine</h2><table>{machine}</table>\n"
            f"<details><summary>Settings</summary><table>{settings}</table></details>\n")


def assemble(directory):
    parts = {}
    for path in sorted(glob.glob(os.path.join(directory, "*.json"))):
        with open(path, encoding="utf-8") as file:
            one = json.load(file)
        if isinstance(one, dict) and "title" in one:
            parts[os.path.splitext(os.path.basename(path))[0]] = one
    names = [name for name in ORDER if name in parts] + [n for n in parts if n not in ORDER]
    with open(os.path.join(directory, "index.html"), "w", encoding="utf-8") as file:
        file.write('<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8">'
                   f"<title>securefile benchmark</title>\n<style>{STYLE}</style>\n"
                   f"<h1>securefile benchmark</h1>\n{facts_tables(parts[names[0]]['facts'])}"
                   f"{''.join(fragment(parts[name]) for name in names)}</html>\n")


# ---- the matrix ----

MATRIX_TEXT = """Each kind of access, by size and number of clients. Medians over the
repetitions. Ratios are to bytea (STORAGE EXTERNAL) in the same repetition; those in the
column "with its checkpoint" count the time of a checkpoint after the turn."""


def plot_cases(path, title, rows):
    """Ratios to bytea, a group of bars for each case."""
    rows = [row for row in rows if len(row[2]) > 1]
    engines = [e for e in COLOURS if e != "bytea" and any(e in row[2] for row in rows)]
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.7 * len(rows)))
    height = 0.8 / max(1, len(engines))
    for i, engine in enumerate(engines):
        places, values, errors = [], [], [[], []]
        for j, (_, _, row) in enumerate(rows):
            if engine not in row:
                continue
            one = row[engine]
            places.append(j + (i - len(engines) / 2 + 0.5) * height)
            values.append(one["ratio"])
            errors[0].append(one["ratio"] - one["least"])
            errors[1].append(one["most"] - one["ratio"])
        axes.barh(places, values, height, xerr=errors, color=COLOURS[engine], label=engine,
                  error_kw={"elinewidth": 0.6})
    axes.axvline(1, color="#444444", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [row[0] for row in rows])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("times as fast as bytea (STORAGE EXTERNAL)")
    axes.set_title(title)
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    save(figure, path)


def plot_clients(path, title, rows):
    """Speed by number of clients, a line for each engine; bars from the least to the most."""
    figure, axes = plt.subplots(figsize=(8, 5))
    for engine in COLOURS:
        found = sorted((row[1][2], row[2][engine]) for row in rows if engine in row[2])
        middle = [one["mb_per_second"] for _, one in found]
        spread = [[one["mb_per_second"] - one["mb_least"] for _, one in found],
                  [one["mb_most"] - one["mb_per_second"] for _, one in found]]
        if found:
            axes.errorbar([clients for clients, _ in found], middle, spread, marker="o",
                          markersize=3, color=COLOURS[engine], label=engine, elinewidth=0.6)
    clients = sorted({row[1][2] for row in rows})
    axes.set_xscale("log", base=2)
    axes.set_xticks(clients, clients)
    axes.set_ylim(bottom=0)
    axes.set(xlabel="clients", ylabel="MB/s", title=title)
    axes.legend(fontsize=7)
    save(figure, path)


def plot_summary(path, rows):
    """One client, one object a commit, by size."""
    panels = []
    for operation in ("write", "read"):
        chosen = [row for row in rows if row[1][0] == row[1][4] == operation]
        panels.append({
            "title": f"{operation}s", "x": "size, KB", "y": "times as fast as bytea", "log": "x",
            "lines": {engine: [(row[1][1] / 1000, row[2][engine]["ratio"])
                               for row in chosen if engine in row[2]] for engine in SUMMARY}})
    lines(path, [panel for panel in panels if all(panel["lines"].values())], 2)


def plots_of(directory, rows):
    """A plot of the sizes, one for each group of cases, and one for each operation and size by
    number of clients."""
    plots = []
    if {"write", "read"} <= {row[1][4] for row in rows}:
        plots.append("summary.svg")
        plot_summary(os.path.join(directory, plots[-1]), rows)
    for group in dict.fromkeys(row[1][4] for row in rows if row[1][4] != "clients"):
        plots.append(f"{group}.svg")
        plot_cases(os.path.join(directory, plots[-1]), group,
                   [row for row in rows if row[1][4] == group])
    for kind in dict.fromkeys(row[1][:2] for row in rows if row[1][4] == "clients"):
        chosen = [row for row in rows if row[1][:2] == kind and row[1][3] == 1 and
                  row[1][4] in ("write", "read", "clients")]
        plots.append(f"clients_{kind[0]}_{kind[1]}.svg")
        plot_clients(os.path.join(directory, plots[-1]), chosen[0][0].rsplit(",", 1)[0], chosen)
    return plots


def write(directory, facts_, measured, rows):
    """The matrix' part.  A row: name of the case, the case, figures by engine."""
    os.makedirs(directory, exist_ok=True)
    table = [[name, engine, f"{one['mb_per_second']:.4g}", f"{one['ratio']:.2f}",
              f"{one['least']:.2f} to {one['most']:.2f}", f"{one['sustained_ratio']:.2f}",
              f"{one['p50_ms']:.3f}", f"{one['p99_ms']:.3f}"]
             for name, _, row in rows for engine, one in row.items()]
    part(directory, "matrix", "Ways to keep a document", MATRIX_TEXT,
         ["case", "engine", "MB/s", "ratio", "least to most", "with its checkpoint",
          "median ms", "99 % ms"], table, plots_of(directory, rows), measured, facts_)
