"""A FerriteDB server process for tests: started on a free port with a fresh directory, stopped and removed afterwards."""

import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
VOTER_SCHEMA = ROOT / "examples" / "voter" / "ddl.sql"
READY = re.compile(r"^ferrite ready on (?P<host>[0-9.]+):(?P<port>\d+) \((?P<partitions>\d+) partitions?, durability (?P<durability>[^)]+)\)$")
# As many nodes behind one server as FERRITE_BINARY starts (tests/cluster/ferrite).
NODES = int(os.environ.get("FERRITE_CLUSTER_NODES", "1"))
# Each node leads a part of the partitions, and what needs rows of several parts is refused.
SEVERAL_GROUPS = os.environ.get("FERRITE_CLUSTER_GROUPS") == "several"
START_SECONDS_MAX = 120
STOP_SECONDS_MAX = 120


def binary():
    named = os.environ.get("FERRITE_BINARY")
    if named:
        return pathlib.Path(named)
    built = [ROOT / "target" / profile / "ferrite" for profile in ("debug", "release")]
    built = [path for path in built if path.is_file()]
    if not built:
        raise RuntimeError("no server binary: run 'cargo build --bin ferrite' first, or set FERRITE_BINARY")
    return max(built, key=lambda path: path.stat().st_mtime)


def voter_rows(contestants):
    """What Voter's `Initialize` inserts, as statements: it decides by what it has read, which several groups cannot do together."""
    names = [f"({number}, '{name}')" for number, name in enumerate(contestants.split(","), 1)]
    codes = re.findall(r"\(\d{3}, '[A-Z]{2}'\)", VOTER_SCHEMA.read_text("utf-8"))
    return [f"UPSERT INTO {table} VALUES {', '.join(rows)}" for table, rows in (("contestants", names), ("area_code_state", codes))]


class Server:
    """Use as a context manager. `directory` is kept across `stop` and `start`, so that a restart finds its data."""

    def __init__(self, partitions=3, durability="sync", schema=None):
        self.partitions = partitions
        self.durability = durability
        self.schema = schema
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ferrite-python-"))
        self.process = None
        self.host = None
        self.port = None

    def start(self, listen="127.0.0.1:0"):
        command = [
            str(binary()), "server", "--new",
            "--dir", str(self.directory / "data"),
            "--listen", listen,
            "--partitions", str(self.partitions),
            "--durability", self.durability,
        ]
        if self.schema is not None:
            command += ["--schema", str(self.schema)]
        self.errors = open(self.directory / "server.log", "ab")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.errors)
        line = self._first_line()
        ready = READY.match(line)
        if ready is None:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"the server said {line!r} instead of the ready line; its log:\n{self.log()}")
        if int(ready["partitions"]) != self.partitions or ready["durability"] != self.durability:
            raise RuntimeError(f"the ready line {line!r} does not tell what was asked for")
        self.host = ready["host"]
        self.port = int(ready["port"])

    def _first_line(self):
        deadline = time.monotonic() + START_SECONDS_MAX
        line = b""
        output = self.process.stdout.fileno()
        while not line.endswith(b"\n"):
            readable, _, _ = select.select([output], [], [], max(0.0, deadline - time.monotonic()))
            byte = os.read(output, 1) if readable else b""
            if not byte:
                break
            line += byte
        return line.decode("utf-8", "replace").rstrip("\n")

    def addresses(self):
        """Where clients reach each node."""
        known = self.directory / "data" / "clients.json"
        return json.loads(known.read_text("utf-8")) if known.exists() else [f"{self.host}:{self.port}"]

    def sql(self, statement, address=None):
        """The rows that a statement returns, as texts, below the names of their columns."""
        command = [str(binary()), "sql", "--server", address or f"{self.host}:{self.port}", "--csv", "-c", statement]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{statement}: {done.stderr.strip() or done.stdout.strip()}")
        return [line.split(",") for line in done.stdout.strip().splitlines()]

    def passed_on(self):
        """How many calls each node has passed on to another since it started, in all."""
        tables = [self.sql("EXEC @Statistics FORWARDING 0", address) for address in self.addresses()]
        return sum(int(row[names.index("PASSED_ON")]) for names, row, *_ in tables)

    def log(self):
        return (self.directory / "server.log").read_text("utf-8", "replace")

    def stop(self, how=signal.SIGTERM):
        """Stops the server and returns its exit code."""
        if self.process is None:
            return None
        self.process.send_signal(how)
        try:
            code = self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"the server did not stop within {STOP_SECONDS_MAX} s; its log:\n{self.log()}")
        finally:
            self.process.stdout.close()
            self.errors.close()
            self.process = None
        return code

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        try:
            self.stop()
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)
