"""Runs all tests in this folder (or those named) and ends with the plain line 'N passed, N failed'."""

import pathlib
import subprocess
import sys
import unittest


class CountingResult(unittest.TextTestResult):
    """Counts successes itself: a class whose server did not start is an error without a test that ran."""

    successes = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.successes += 1


def without_left_out(suite):
    """What a cluster of several groups cannot do is left out by name."""
    command = [pathlib.Path(__file__).resolve().parents[2] / "cluster" / "left-out", "python"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    kept = unittest.TestSuite()
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            kept.addTest(without_left_out(test))
        elif not any(f"{test.id()}.".startswith(f"{name}.") for name in names):
            kept.addTest(test)
    return kept


def main():
    here = pathlib.Path(__file__).resolve().parent
    sys.path.insert(0, str(here))
    loader = unittest.TestLoader()
    if len(sys.argv) > 1:
        suite = loader.loadTestsFromNames(sys.argv[1:])
    else:
        suite = loader.discover(str(here), pattern="test_*.py")
    runner = unittest.TextTestRunner(verbosity=2, stream=sys.stdout, resultclass=CountingResult)
    result = runner.run(without_left_out(suite))
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    print(f"{result.successes} passed, {failed} failed")
    if result.successes + failed == 0:
        print("no test was found", file=sys.stderr)
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
