"""Votes through each client in turn, each on a fresh server of the same binary; see `run`.

With --nodes, the server is a cluster of so many nodes, K = 1, that lead parts of --partitions, and each client is given one node's address.
Then the votes are counted that a node has passed on to another, as `@Statistics FORWARDING` has it, over the client's whole life.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent / "python"))
from server import VOTER_SCHEMA, Server, binary, voter_rows  # noqa: E402

CONTESTANTS = "Ada,Bruno,Carmen,Dmitri,Esther,Felix"
# The published client reaches into the JDK's selectors.
JAVA = ["java", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"]
WARMUP_SECONDS = 3


def java(classpath, program):
    """Runs a source file; its base class is compiled with it, into a folder that goes away."""
    def command(options, address):
        return JAVA + ["-cp", f"{options.classes}:{classpath(options)}", program] + arguments(options, address)

    def build(options):
        sources = [str(HERE / "Load.java"), str(HERE / f"{program}.java")]
        subprocess.run(["javac", "-d", options.classes, "-cp", classpath(options)] + sources, check=True)

    return command, build


def arguments(options, address):
    return [address, str(WARMUP_SECONDS), str(options.seconds), str(options.outstanding), str(options.nodes)]


def published_python(options, address):
    return [sys.executable, str(HERE / "published.py")] + arguments(options, address)


def our_node(options, address):
    return ["node", str(ROOT / "clients/node/bench/load.mjs"), "--json", "--server", address, "--warmup", str(WARMUP_SECONDS),
            "--seconds", str(options.seconds), "--outstanding", str(options.outstanding)]


def our_rust(options, address):
    return [str(binary()), "bench", "voter", "--keep", "--server", address, "--warmup", str(WARMUP_SECONDS), "--duration",
            str(options.seconds), "--outstanding", str(options.outstanding), "--json", str(pathlib.Path(options.classes) / "rust.json")]


def ours(options):
    return options.java_ours


def theirs(options):
    return options.java_published


def nothing(options):
    pass


# Name, what it is, how it is run and built.
CLIENTS = {
    "rust": ("ours, Rust", our_rust, nothing),
    "java": ("ours, Java", *java(ours, "Ours")),
    "node": ("ours, Node.js", our_node, nothing),
    "published-java": ("published Java 13.2.2", *java(theirs, "Published")),
    "published-java2": ("published Java 13.2.2, Client2", *java(theirs, "Published2")),
    "published-python": ("published Python 16.1.0", published_python, nothing),
}


def figures(name, options, output):
    """Transactions per second, CPU-microseconds per call, calls answered in the measured time, votes accepted in all; one shape for all."""
    if name == "rust":
        run = json.loads((pathlib.Path(options.classes) / "rust.json").read_text("utf-8"))
        accepted = dict(run["details"])["votes accepted"]
        return run["transactions_per_second"], run["client_cpu_microseconds_per_transaction"], accepted, run["failed"]
    last = json.loads(output.strip().splitlines()[-1])
    if name == "node":
        run = last["result"]
        return run["transactionsPerSecond"], run["cpuMicrosecondsPerCall"], sum(run["counts"]["accepted"]), run["failed"]
    return last["transactions"] / last["seconds"], last["cpu_microseconds"] / max(1, last["answered"]), last["accepted"], last["failed"]


def server_cpu(process):
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")


def processes_of(server):
    known = server.directory / "data" / "processes.json"
    return [process for process, _ in json.loads(known.read_text("utf-8"))] if known.exists() else [server.process.pid]


def votes(server):
    """Of all partitions: several groups of them are not read together."""
    keys = [row[1] for row in server.sql("EXEC @GetPartitionKeys INTEGER")[1:]]
    return sum(int(server.sql(f"EXEC @AdHocSpForTest 'SELECT COUNT(*) FROM votes' {key}")[-1][0]) for key in keys)


def measure(name, options):
    what, command, _ = CLIENTS[name]
    with Server(partitions=options.partitions, durability=options.durability, schema=VOTER_SCHEMA) as server:
        address = f"{server.host}:{server.port}"
        for statement in voter_rows(CONTESTANTS):
            server.sql(statement)
        before = server.passed_on()
        process = subprocess.Popen(command(options, ",".join(server.addresses()) if name == "rust" else address), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        output, _ = process.communicate("go\n", timeout=options.seconds + 180)
        if process.returncode != 0:
            raise SystemExit(f"{what} ended with {process.returncode}")
        used = sum(server_cpu(process) for process in processes_of(server))
        rate, client_cpu, accepted, failed = figures(name, options, output)
        forwarded = server.passed_on() - before
        rows = votes(server)
        if rows != accepted or failed:
            raise SystemExit(f"{what}: {accepted} votes were accepted and {failed} failed, {rows} are there")
        # Of the server's whole life, warm-up included, by the votes that are there.
        return {"transactions_per_second": rate, "client_cpu_microseconds_per_call": client_cpu,
                "server_cpu_microseconds_per_vote": used / max(1, rows), "passed_on_per_vote": forwarded / max(1, rows)}


def options_of(arguments_given):
    parser = argparse.ArgumentParser(prog="run", description="Our drivers and the published clients on the same server.")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--outstanding", type=int, default=3000)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--durability", default="sync")
    parser.add_argument("--clients", default=",".join(CLIENTS), help="some of: " + ", ".join(CLIENTS))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--java-ours", help=argparse.SUPPRESS)
    parser.add_argument("--java-published", help=argparse.SUPPRESS)
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments_given)
    options.names = [name for name in options.clients.split(",") if name]
    unknown = [name for name in options.names if name not in CLIENTS]
    if unknown or not options.names:
        parser.error(f"--clients takes some of {', '.join(CLIENTS)}, with commas between them")
    for name in ("seconds", "rounds", "outstanding", "partitions", "nodes"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} needs a number of at least 1")
    return options


def main():
    options = options_of(sys.argv[1:])
    program = binary()
    if options.check:
        return
    if options.nodes > 1:
        os.environ |= {"FERRITE_CLUSTER_BINARY": str(program), "FERRITE_CLUSTER_NODES": str(options.nodes), "FERRITE_CLUSTER_GROUPS": "several",
                       "FERRITE_BINARY": str(ROOT / "tests" / "cluster" / "ferrite")}
    with tempfile.TemporaryDirectory(prefix="ferrite-throughput-") as options.classes:
        for name in options.names:
            CLIENTS[name][2](options)
        found = {name: [] for name in options.names}
        for number in range(1, options.rounds + 1):
            for name in options.names:
                one = measure(name, options)
                found[name].append(one)
                print(f"round {number}  {CLIENTS[name][0]:<32} {one['transactions_per_second']:>11,.0f}/s", flush=True)
    results = []
    for name, rounds in found.items():
        middle = {figure: statistics.median(one[figure] for one in rounds) for figure in rounds[0]}
        spread = [one["transactions_per_second"] for one in rounds]
        results.append({"name": name, "client": CLIENTS[name][0], **middle, "rounds_per_second": spread})
    print(table(results))
    if options.json:
        kept = {"bench": "clients", "finished_unix_seconds": int(time.time()), "command_line": sys.argv[1:],
                "machine": {"cores": len(os.sched_getaffinity(0))},
                "settings": {key: getattr(options, key) for key in ("seconds", "rounds", "outstanding", "partitions", "nodes", "durability")},
                "results": results}
        options.json.write_text(json.dumps(kept, indent=2) + "\n", "utf-8")


def table(results):
    """Medians, and each of ours by each of theirs."""
    lines = [f"\n{'':<32} {'per second':>12} {'client CPU-us':>14} {'server CPU-us':>14} {'passed on':>10}"]
    for one in results:
        lines.append(f"{one['client']:<32} {one['transactions_per_second']:>12,.0f} {one['client_cpu_microseconds_per_call']:>14.2f} "
                     f"{one['server_cpu_microseconds_per_vote']:>14.2f} {one['passed_on_per_vote']:>10.2%}")
    own = [one for one in results if one["client"].startswith("ours")]
    published = [one for one in results if not one["client"].startswith("ours")]
    if own and published:
        lines.append("\nours by published: throughput (more is better), client CPU per call (less is better)")
    for one in own:
        for other in published:
            rate = one["transactions_per_second"] / other["transactions_per_second"]
            cpu = one["client_cpu_microseconds_per_call"] / other["client_cpu_microseconds_per_call"]
            lines.append(f"  {one['client']:<14} by {other['client']:<32} {rate:>6.2f} x {cpu:>8.3f} x")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
