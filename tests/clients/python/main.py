"""Runs all tests in this folder (or those named) and ends with the plain line 'N passed, N failed'."""

import pathlib
import sys
import unittest


class CountingResult(unittest.TextTestResult):
    """Counts successes itself: a class whose server did not start is an error without a test that ran."""

    successes = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.successes += 1


def main():
    here = pathlib.Path(__file__).resolve().parent
    sys.path.insert(0, str(here))
    loader = unittest.TestLoader()
    if len(sys.argv) > 1:
        suite = loader.loadTestsFromNames(sys.argv[1:])
    else:
        suite = loader.discover(str(here), pattern="test_*.py")
    runner = unittest.TextTestRunner(verbosity=2, stream=sys.stdout, resultclass=CountingResult)
    result = runner.run(suite)
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    print(f"{result.successes} passed, {failed} failed")
    if result.successes + failed == 0:
        print("no test was found", file=sys.stderr)
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
