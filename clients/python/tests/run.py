"""Runs test modules; a line for each test: "ok - what", "not ok - what", "skip - what: why".

    python3 run.py test_core...

The server is that of PGHOST, PGPORT and so on: a superuser, a database of its own.
PGSECUREFILE_LONG=1: the long forms, too.
"""

import sys
import unittest


class Lines(unittest.TestResult):
    def _name(self, test):
        return f"{type(test).__module__.removeprefix('test_')}: {test.shortDescription() or test}"

    def addSuccess(self, test):  # noqa: N802
        print(f"ok - {self._name(test)}", flush=True)

    def addSkip(self, test, reason):  # noqa: N802
        print(f"skip - {self._name(test)}: {reason}", flush=True)

    def _bad(self, test, error):
        print(f"not ok - {self._name(test)}\n{self._exc_info_to_string(error, test)}", flush=True)

    def addFailure(self, test, error):  # noqa: N802
        super().addFailure(test, error)
        self._bad(test, error)

    addError = addFailure  # noqa: N815


result = Lines()
unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:]).run(result)
sys.exit(not result.wasSuccessful())
