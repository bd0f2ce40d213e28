"""Writes what the matrix has measured: JSON, a table, plots, and a page with all of it."""

import html
import json
import os

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt		# noqa: E402  the backend is chosen first

COLOURS = {"bytea": "#888888", "logging": "#1f6fb4", "filesystem_like": "#2a9d4f",
           "large_object": "#c0a060", "file": "#b05fb0", "null": "#000000",
           "wal": "#555577", "connection": "#bbbbbb", "bytea_lz4": "#d98880", "bytea_pglz": "#e6b0aa",
           "http": "#d35400", "http_no_flush": "#f0b27a", "fio": "#7b241c", "buffered": "#c0a060",
           "direct_sync": "#85c1e9", "direct_libaio": "#1f6fb4", "direct_io_uring": "#2a9d4f"}


def table(rows):
    """Markdown: a line for each case and engine would be long, so engines are columns."""
    engines = []
    for _, _, _, row in rows:
        engines += [engine for engine in row if engine not in engines]
    lines = ["| case | " + " | ".join(engines) + " |", "|---" * (len(engines) + 1) + "|"]
    for name, _, _, row in rows:
        cells = [cell(row[engine]) if engine in row else "" for engine in engines]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def cell(one):
    return (f"{one['mb_per_second']:.3g} MB/s, {one['ratio']:.2f}"
            f" ({one['least']:.2f} to {one['most']:.2f}), {one['sustained_ratio']:.2f}")


def plot_cases(path, title, rows):
    """Ratios to bytea, a group of bars for each case."""
    rows = [row for row in rows if len(row[3]) > 1]
    engines = [e for e in COLOURS if e != "bytea" and any(e in row[3] for row in rows)]
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.7 * len(rows)))
    height = 0.8 / max(1, len(engines))
    for i, engine in enumerate(engines):
        places, values, errors = [], [], [[], []]
        for j, (_, _, _, row) in enumerate(rows):
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
    axes.set_yticks(range(len(rows)), [row[0] for row in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("times as fast as bytea (STORAGE EXTERNAL)")
    axes.set_title(title)
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def plot_clients(path, title, rows):
    """Speed by number of clients, a line for each engine; bars from the least to the most."""
    figure, axes = plt.subplots(figsize=(8, 5))
    for engine in COLOURS:
        found = sorted((row[2][2], row[3][engine]) for row in rows if engine in row[3])
        middle = [one["mb_per_second"] for _, one in found]
        spread = [[one["mb_per_second"] - one["mb_least"] for _, one in found],
                  [one["mb_most"] - one["mb_per_second"] for _, one in found]]
        if found:
            axes.errorbar([clients for clients, _ in found], middle, spread, marker="o",
                          markersize=3, color=COLOURS[engine], label=engine, elinewidth=0.6)
    clients = sorted({row[2][2] for row in rows})
    axes.set_xscale("log", base=2)
    axes.set_xticks(clients, clients)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("clients")
    axes.set_ylabel("MB/s")
    axes.set_title(title)
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def plots_of(directory, rows):
    """A plot for each group of cases; one for each operation and size by number of clients."""
    plots = []
    for group in dict.fromkeys(row[2][4] for row in rows if row[2][4] != "clients"):
        plots.append(f"{group}.svg")
        plot_cases(os.path.join(directory, plots[-1]), group,
                   [row for row in rows if row[2][4] == group])
    for kind in dict.fromkeys(row[2][:2] for row in rows if row[2][4] == "clients"):
        chosen = [row for row in rows if row[2][:2] == kind and row[2][3] == 1 and
                  row[2][4] in ("write", "read", "clients")]
        plots.append(f"clients_{kind[0]}_{kind[1]}.svg")
        plot_clients(os.path.join(directory, plots[-1]), chosen[0][0].rsplit(",", 1)[0], chosen)
    return plots


def page(facts, rows, plots):
    settings = "".join(f"<tr><td>{html.escape(k)}</td><td>{html.escape(str(v))}</td></tr>"
                       for k, v in facts["settings"].items())
    machine = "".join(f"<tr><td>{html.escape(k)}</td><td>{html.escape(str(v))}</td></tr>"
                      for k, v in facts.items() if k != "settings")
    cells = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(engine)}</td>"
        f"<td>{one['mb_per_second']:.4g}</td><td>{one['ratio']:.2f}</td>"
        f"<td>{one['least']:.2f} to {one['most']:.2f}</td><td>{one['sustained_ratio']:.2f}</td>"
        f"<td>{one['p50_ms']:.3f}</td><td>{one['p99_ms']:.3f}</td></tr>"
        for name, _, _, row in rows for engine, one in row.items())
    images = "".join(f'<p><img src="{plot}" alt="{plot}"></p>' for plot in plots)
    return f"""<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>securefile benchmark</title>
<style>body {{ font-family: sans-serif; max-width: 70em; margin: 2em auto }}
td, th {{ padding: 0.1em 0.8em; text-align: left }} tr:nth-child(even) {{ background: #f2f2f2 }}
</style>
<h1>securefile benchmark</h1>
{images}
<h2>Figures</h2>
<p>Medians over the repetitions. Ratios are to bytea in the same repetition; those in the column
"with its checkpoint" count the time of a checkpoint after the turn.</p>
<table><tr><th>case<th>engine<th>MB/s<th>ratio<th>least to most<th>with its checkpoint<th>median ms<th>99 % ms</tr>
{cells}</table>
<h2>Machine</h2><table>{machine}</table>
<h2>Settings</h2><table>{settings}</table>
</html>
"""


def write(directory, facts, measured, rows):
    os.makedirs(directory, exist_ok=True)
    plots = plots_of(directory, rows)
    with open(os.path.join(directory, "results.json"), "w", encoding="utf-8") as file:
        json.dump({"facts": facts, "measured": measured}, file, indent=1)
        file.write("\n")
    with open(os.path.join(directory, "table.md"), "w", encoding="utf-8") as file:
        for group in dict.fromkeys(row[2][4] for row in rows):
            file.write(f"## {group}\n\n{table([row for row in rows if row[2][4] == group])}\n")
    with open(os.path.join(directory, "index.html"), "w", encoding="utf-8") as file:
        file.write(page(facts, rows, plots))
