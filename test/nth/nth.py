#!/usr/bin/python3
"""Lets the nth system call on files fail, and looks what becomes of it.

The work is cut into sections (sections.py).  A run makes a table, does one section in a
new session with its nth call failing in some way, once or from there on, and looks: each
transaction that was acknowledged is there, to the row, and none that was rolled back;
every value is right, for the session that met the failure, too; space is sound, no file
is left over and none open twice; the session goes on, unless the server had to PANIC.

    nth.py --server 'host=... dbname=postgres' DATA LOG --seed 42 --lot 1

Each --server is a cluster that has been prepared, with a process that works in it.  Exit
code 0: all is well; 1: not, and how to try that again is said.
"""

import argparse
import collections
import multiprocessing
import os
import random
import re
import sys
import time
import traceback

from runner import Case, Runner
from sections import FORMS, all_sections

METHODS = ["libaio", "io_uring", "sync"]
BROKEN_OFF = "broken off"

# system calls, and any of them
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/base/fault_points.h"),
          encoding="ascii") as header:
    POINTS = re.findall(r"^SF_FAULT_POINT\((io_\w+)", header.read().partition("(io_any")[0], re.M) + ["io_any"]

# How calls fail; what is to be tried again does not go on for ever.
WAYS = [(kind, times) for kind in ("error", "enospc", "enomem", "short") for times in ("once", "always")] \
    + [(kind, times) for kind in ("eintr", "eagain") for times in ("once", "often")]


# ---- which runs ----

def count_calls(runner, wanted):
    """How many calls (section, form, method) make, each: {point: how many}."""
    calls = {}
    for one in wanted:
        case = Case(*one, "pass", "always", "io_any", 0)
        outcome = runner.run(case, POINTS)
        if outcome.bad or outcome.errors:
            raise RuntimeError(f"without faults, {case}: {outcome.bad} {outcome.errors}")
        calls[one] = {point: n for point, n in outcome.fired.items() if n > 0}
    return calls


def to_count(options, rng):
    """Of each section all forms and methods, or one by lot."""
    for name in filter(re.compile(options.sections).search, all_sections("l")):
        both = [(name, form, method) for form in FORMS for method in METHODS]
        yield from both if options.every else [rng.choice(both)]


def by_lot(rng, calls, name, ways):
    """Calls of a section, one in each of some ways.  Of whatever kind is as likely as
    another, though there are far more of one."""
    counts = [key for key in calls if key[0] == name]
    for way in ways if counts else []:
        key = rng.choice(counts)
        point = rng.choice(sorted(calls[key]))
        yield Case(*key, *way, point, rng.randrange(calls[key][point]))


def every(calls, by_turns):
    """Each call of all sections in each way: in both forms and by all methods, or by turns."""
    for name in sorted({name for name, _, _ in calls if name != "all"}):
        counts = {key: calls[key]["io_any"] for key in sorted(calls) if key[0] == name}
        for n in range(max(counts.values())):
            keys = [key for key, count in counts.items() if n < count]
            for i, way in enumerate(WAYS):
                for key in [keys[(n + i) % len(keys)]] if by_turns else keys:
                    yield Case(*key, *way, "io_any", n)


def choose(options, rng, calls):
    """All cases, in any order."""
    if options.every:
        cases = list(every(calls, options.every == "turns"))
    else:
        cases = [case for name in sorted({name for name, _, _ in calls if name != "all"})
                 for case in by_lot(rng, calls, name, some_ways(rng, options.lot))]
    cases += by_lot(rng, calls, "all", WAYS * 10 if options.every else some_ways(rng, 3))
    return rng.sample(cases, len(cases))


def some_ways(rng, count):
    return [way for _ in range(0, count, len(WAYS)) for way in rng.sample(WAYS, len(WAYS))][:count]


def serve(server, cases, results, wanted):
    """A process's work, in its own cluster.  Puts how many calls there are of what is
    wanted; (case, fired, panic, errors, bad) for each case; None at the end."""
    case = None
    try:
        runner = Runner(*server)
        if wanted:
            results.put(count_calls(runner, wanted))
        for case in iter(cases.get, None):
            outcome = runner.run(case)
            results.put((case, sum(outcome.fired.values()), outcome.lost_session, [state for state, _ in outcome.errors], outcome.bad))
    except Exception:			# pylint: disable=broad-except
        print(f"broken off at {case}: {traceback.format_exc()}", flush=True)
        results.put(BROKEN_OFF)
    results.put(None)


class Totals:
    """What all runs have shown together."""

    def __init__(self):
        self.counts = collections.Counter()
        self.errors = collections.Counter()
        self.started = time.time()

    def add(self, case, fired, panic, states, bad):
        self.counts["runs"] += 1
        self.counts["failed calls"] += max(fired, panic)
        self.counts["PANICs"] += panic
        self.counts["silent runs"] += not fired and not panic
        self.errors.update(f"{case.kind} {state}" for state in states)
        if bad:
            self.counts["wrong"] += 1
            print(f'SECUREFILE_NTH_CASE="{case}"\n    ' + "\n    ".join(bad), flush=True)

    def __str__(self):
        return (f"{time.time() - self.started:.0f} s; " + ", ".join(f"{n} {what}" for what, n in self.counts.items())
                + "; errors: " + ", ".join(f"{what} {n}" for what, n in sorted(self.errors.items())))


def run_all(options):
    """True if nothing was wrong."""
    totals = Totals()
    rng = random.Random(options.seed)
    wanted = [] if options.case else list(to_count(options, rng))
    results = multiprocessing.Queue()
    cases = multiprocessing.Queue()
    workers = [multiprocessing.Process(target=serve, args=(server, cases, results, [] if n else wanted))
               for n, server in enumerate(options.server)]
    for worker in workers:
        worker.start()
    if options.case:
        *names, n = options.case.split()
        chosen = [Case(*names, int(n))]
    else:
        calls = results.get()
        if calls == BROKEN_OFF:
            return False
        print("calls: " + ", ".join(f"{'/'.join(key)} {counts['io_any']}" for key, counts in calls.items()))
        chosen = choose(options, rng, calls)
    for case in chosen + [None] * len(workers):
        cases.put(case)
    left = len(workers)
    broken_off = False
    while left > 0 and totals.counts["wrong"] < 20:
        result = results.get()
        if result == BROKEN_OFF:
            broken_off = True
        elif result is None:
            left -= 1
        else:
            totals.add(*result)
            if totals.counts["runs"] % 1000 == 0:
                print(f"{totals.counts['runs']} of {len(chosen)}, {time.time() - totals.started:.0f} s", flush=True)
    for worker in workers:
        if left > 0:
            worker.terminate()
        worker.join()
    print(f"seed {options.seed}, {totals}")
    return not broken_off and totals.counts["wrong"] == 0 and totals.counts["runs"] == len(chosen)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", nargs=3, action="append", required=True, metavar=("DSN", "DATA", "LOG"))
    parser.add_argument("--seed", type=int, default=random.randrange(10 ** 9))
    parser.add_argument("--lot", type=int, default=8, help="runs of each section")
    parser.add_argument("--every", choices=["turns", "all"], help="every call, by forms and methods by turns or by all")
    parser.add_argument("--sections", default=".", help="a pattern of sections")
    parser.add_argument("--case", help='one run, as "large l io_uring error once io_any 17"')
    return 0 if run_all(parser.parse_args()) else 1


if __name__ == "__main__":
    sys.exit(main())
