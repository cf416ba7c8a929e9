"""Runs tests of ggml-python: ggml_tests.py FILE ... What it prints: see node.mjs; the text has the result of each."""
import json
import sys
import time

import pytest
from peak import peak


class Results:
    def __init__(self):
        self.of = {}

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            self.of[report.nodeid.split("/")[-1]] = report.outcome


results, begin = Results(), time.time()
status = pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]], plugins=[results])
print()
seconds = time.time() - begin
print(json.dumps({"numbers": [], "text": results.of, "seconds": seconds, "peak": peak()}))
sys.exit(status)
