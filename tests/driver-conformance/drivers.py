"""The drivers as processes: a command line in, an answer line out. What a line looks like is in README.md."""

import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def hexadecimal(text):
    return text.encode("utf-8").hex()


def text(hexadecimal_text):
    return bytes.fromhex(hexadecimal_text).decode("utf-8")


def parameter(kind, value=None):
    """A field for a parameter: a value as text, None for NULL, a list for an array."""
    if kind == "NULL" or value is None:
        return "NULL"
    if isinstance(value, list):
        return "ARRAY=%s=%s" % (kind, ",".join("-" if each is None else hexadecimal(each) for each in value))
    return "%s=%s" % (kind, hexadecimal(value))


class Answer:
    """`outcome` is ok, failed, unknown, not-sent, or error: what was asked cannot be sent."""

    def __init__(self, line):
        self.line = line
        self.outcome, *self.fields = line.split("\t")
        self.status = int(self.fields[0]) if self.outcome != "ok" else 1
        self.message = text(self.fields[1]) if self.outcome != "ok" else ""
        self.code = self.fields[2] if self.outcome != "ok" and len(self.fields) > 2 else None

    @property
    def tables(self):
        return [read_table(field) for field in self.fields]

    def __repr__(self):
        return self.line[:300] if self.outcome == "ok" else "%s %d %s %s" % (self.outcome, self.status, self.code, self.message)


def read_table(field):
    head, *rows = field.split("|")
    columns = [(text(name), kind) for name, kind in (column.split(":") for column in head.split(",") if column)]
    cells = [[None if cell == "-" else text(cell) for cell in row.split(",")] for row in rows]
    return columns, cells


class Driver:
    def __init__(self, name):
        self.name = name
        self.process = subprocess.Popen(COMMANDS[name](), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(self, *fields):
        self.process.stdin.write("\t".join(map(str, fields)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the %s driver's process ended during %s" % (self.name, fields[:2]))
        return Answer(line.rstrip("\n"))

    def connect(self, address, timeout_ms=120_000, plain=False):
        return self.ask("connect", address, timeout_ms, "plain" if plain else "full")

    def call(self, procedure, *parameters):
        return self.ask("call", procedure, *parameters)

    def sql(self, statement, *parameters):
        answer = self.call("@AdHoc", parameter("STRING", statement), *parameters)
        if answer.outcome != "ok":
            raise AssertionError("%s: %s" % (statement, answer))
        return answer

    def close(self):
        """Closes the client, after which nothing of the driver's may keep its process alive."""
        answer = self.ask("close")
        if answer.outcome != "ok" or self.process.wait(timeout=120) != 0:
            raise AssertionError("close: %s, exit code %s" % (answer, self.process.returncode))

    def end(self):
        self.process.kill()
        self.process.wait()


def rust():
    return [os.environ["FERRITE_CONFORMANCE_RUST"]]


def java():
    return ["java", "-XX:+UseSerialGC", "-cp", os.environ["FERRITE_CONFORMANCE_JAVA"], "io.ferritedb.conformance.Adapter"]


def node():
    return ["node", str(HERE / "node.mjs")]


COMMANDS = {"rust": rust, "java": java, "node": node}
