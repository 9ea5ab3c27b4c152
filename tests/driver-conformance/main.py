"""One suite for all drivers: golden bytes, values of every type at their edges, refusals, silence, and servers that are killed and started
again. Ends with a line 'N passed, M failed'.

    main.py [--drivers rust,java,node] [--restarts N] [--every SECONDS] [--only restarts]
"""

import argparse
import decimal
import json
import pathlib
import sys
import threading
import time
import traceback

import fakes
from drivers import ROOT, Driver, parameter

sys.path.insert(0, str(ROOT / "tests" / "clients" / "python"))
from server import Server  # noqa: E402 (the servers of the Python client's tests)

DEADLINE_SECONDS = 120
CASE_SECONDS_MAX = 300
# Of a driver's single-partition calls, those that a node may have to pass on to another.
PASSED_ON_MAX = 0.05
HERE = pathlib.Path(__file__).resolve().parent
CASES = json.loads((HERE / "cases.json").read_text("utf-8"))
VECTORS = json.loads((ROOT / "crates" / "wire" / "tests" / "data" / "vectors.json").read_text("utf-8"))
LOGIN = bytes.fromhex(VECTORS["login_responses"][0]["hex"])


def vector(group, name):
    return next(each for each in VECTORS[group] if each["id"] == name)


def as_text(kind, value):
    """A value of the vectors as the drivers' text."""
    if isinstance(value, list):
        return [as_text(kind, each) for each in value]
    if isinstance(value, dict):
        return value["hex"] if "hex" in value else "%r %r" % (value["lng"], value["lat"])
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def same(kind, wanted, found):
    """Whether two texts say the same value."""
    if wanted is None or found is None:
        return wanted is found
    if kind == "DECIMAL":
        return decimal.Decimal(wanted) == decimal.Decimal(found)
    if kind == "FLOAT":
        return float(wanted) == float(found)
    if kind == "GEOGRAPHY_POINT":
        return [float(each) for each in wanted.split()] == [float(each) for each in found.split()]
    return wanted == found


def expect(condition, *told):
    if not condition:
        raise AssertionError(" ".join(map(str, told)))


# --- golden bytes: the suite is the server ---


def golden_parameters(driver):
    answer = bytes.fromhex(vector("responses", "success_no_tables")["hex"])
    with fakes.Listener(LOGIN, lambda name, parameters, handle: fakes.with_handle(answer, handle)) as listener:
        expect(driver.connect(listener.address, plain=True).outcome == "ok", "no connection")
        for name in CASES["golden_parameters"]:
            case = vector("parameter_sets", name)
            fields = [golden_field(each) for each in case["params"]]
            got = driver.call("Golden", *fields)
            expect(got.outcome == "ok", name, got)
            _, procedure, sent = listener.requests.get(timeout=DEADLINE_SECONDS)
            expect(procedure == "Golden" and sent.hex() == case["hex"], name, "sent", sent.hex(), "and not", case["hex"])


def golden_field(given):
    if given["type"] == "NULL":
        return parameter("NULL")
    if given["type"] == "ARRAY":
        kind = given.get("element_type") or given["element"]
        return parameter(kind, as_text(kind, given.get("values", given.get("value"))))
    return parameter(given["type"], as_text(given["type"], given["value"]))


def golden_answers(driver, byte_by_byte=False):
    current = {}

    def answer(name, parameters, handle):
        return fakes.with_handle(bytes.fromhex(current["hex"]), handle)

    with fakes.Listener(LOGIN, answer, byte_by_byte) as listener:
        expect(driver.connect(listener.address, plain=True).outcome == "ok", "no connection")
        for name in CASES["golden_answers"]:
            current = vector("responses", name)
            got = driver.call("Golden")
            check_answer(name, current["decoded"], got)


def check_answer(name, wanted, got):
    if wanted["status"] != 1:
        expect(got.outcome == "failed" and got.status == wanted["status"], name, got)
        expect(not wanted["status_string"] or wanted["status_string"] in got.message, name, got)
        expect(got.code == "HY000", name, "from a server without codes", got)
        return
    expect(got.outcome == "ok", name, got)
    expect(len(got.tables) == len(wanted["tables"]), name, "tables", got)
    for (columns, rows), table in zip(got.tables, wanted["tables"]):
        named = [(column["name"], column["type"]) for column in table["columns"]]
        expect(columns == named, name, columns, "and not", named)
        expect(len(rows) == len(table["rows"]), name, len(rows), "rows")
        for row, wanted_row in zip(rows, table["rows"]):
            for (column, kind), found, value in zip(columns, row, wanted_row):
                if kind == "GEOGRAPHY":
                    expect((found is None) == (value is None), name, column)
                else:
                    expect(same(kind, as_text(kind, value), found), name, column, found, "and not", value)


def golden_answers_in_pieces(driver):
    golden_answers(driver, byte_by_byte=True)


def later_fields_are_skipped(driver):
    """A failure has fields of id, length and bytes behind its tables: the code, and whatever later servers add."""
    fields = b"\x02\x00" + b"\x01\x0523505" + b"\x7f\x03\xff\x00\xff"

    def answer(name, parameters, handle):
        plain = fakes.with_handle(bytes.fromhex(vector("responses", "constraint_failure")["hex"]), handle)
        body = plain[4:] + fields
        return len(body).to_bytes(4, "big") + body

    with fakes.Listener(LOGIN, answer) as listener:
        expect(driver.connect(listener.address, plain=True).outcome == "ok", "no connection")
        got = driver.call("Later")
        expect(got.outcome == "failed" and got.code == "23505", got)


def silence_is_unknown(driver):
    with fakes.Listener(LOGIN, lambda *_: None) as listener:
        expect(driver.connect(listener.address, timeout_ms=150, plain=True).outcome == "ok", "no connection")
        unknown, deadline = 0, time.monotonic() + DEADLINE_SECONDS
        while unknown < 3:
            got = driver.call("Silent")
            # On a busy machine the time may be up before the call has been sent.
            expect(got.outcome in ("unknown", "not-sent") and time.monotonic() < deadline, got)
            expect(got.outcome == "not-sent" or got.code == "HYT00", got)
            unknown += got.outcome == "unknown"


def a_closed_connection_is_unknown(driver):
    def close(*_):
        raise EOFError

    with fakes.Listener(LOGIN, close) as listener:
        expect(driver.connect(listener.address, plain=True).outcome == "ok", "no connection")
        got = driver.call("Closed")
        expect(got.outcome == "unknown" and got.code == "08007", got)


def garbage_is_unknown(driver):
    for garbage in (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff\x00", b"\x00\x00\x00\x02\x00\x00"):
        with fakes.Listener(LOGIN, lambda *_: garbage + b"\x00" * 32) as listener:
            expect(driver.connect(listener.address, plain=True).outcome == "ok", "no connection")
            got = driver.call("Garbage")
            expect(got.outcome == "unknown" and got.code == "08P01", garbage.hex(), got)


def a_refused_login_is_said(driver):
    for code, state in ((-1, "28000"), (1, "53300"), (3, "08P01")):
        login = bytes.fromhex(vector("login_failures", "fail_%d" % code)["hex"])
        with fakes.Listener(login, lambda *_: None) as listener:
            got = driver.connect(listener.address, plain=True)
            expect(got.outcome != "ok" and got.code == state, "code", code, got)


# --- a real server ---


def values_at_their_edges(driver, server):
    driver.connect(address_of(server))
    for column in CASES["columns"]:
        kind, table = column["type"], "edges_%s" % column["type"].lower()
        values = [*column["values"], None]
        for at, value in enumerate(values):
            got = driver.call(table.upper() + ".upsert", parameter("BIGINT", str(at)), parameter(kind, value))
            expect(got.outcome == "ok", kind, value, got)
            columns, rows = driver.sql("SELECT v FROM %s WHERE id = ?" % table, parameter("BIGINT", str(at))).tables[0]
            expect(columns == [("V", kind)] and len(rows) == 1, kind, columns, rows)
            expect(same(kind, value, rows[0][0]), kind, repr(value), "came back as", repr(rows[0][0]))


def polygons(driver, server):
    driver.connect(address_of(server))
    for at, polygon in enumerate(CASES["polygons"]):
        driver.sql("UPSERT INTO edges_geography VALUES (%d, POLYGONFROMTEXT('%s'))" % (at, polygon))
        _, rows = driver.sql("SELECT v FROM edges_geography WHERE id = %d" % at).tables[0]
        rings = [[[round(float(each), 6) for each in point.split()] for point in ring.split(",")] for ring in rows[0][0].split(";")]
        text = polygon[len("POLYGON((") : -2].split("), (")
        wanted = [[[float(each) for each in point.split()] for point in ring.split(", ")[:-1]] for ring in text]
        expect(rings == wanted, polygon, rings)


def refusals(driver, server):
    driver.connect(address_of(server))
    for case in CASES["refused_by_driver"]:
        table = "EDGES_%s.upsert" % case["type"]
        got = driver.call(table, parameter("BIGINT", "500"), parameter(case["type"], case["value"]))
        expect(got.outcome == "error" and got.message, case, got)
    for case in CASES["refused_by_server"]:
        got = driver.call(case["procedure"], *(parameter(*each) for each in case["parameters"]))
        expect(got.outcome == "failed" and got.status == case["status"] and got.message, case["name"], got)
        expect(got.code == case["code"], case["name"], got, "and not", case["code"])
    driver.call("KEPT.insert", parameter("BIGINT", "-1"))
    got = driver.call("KEPT.insert", parameter("BIGINT", "-1"))
    expect(got.outcome == "failed" and got.code == "23505", "a key twice", got)
    driver.sql("DELETE FROM kept")
    got = driver.call("@Ping")
    expect(got.outcome == "ok", "after all that", got)


def calls_go_to_the_nodes_that_lead(driver, server):
    driver.connect(address_of(server))
    driver.sql("DELETE FROM kept")
    before = server.passed_on()
    driver.ask("hammer", "KEPT.insert", 20)
    while int(driver.ask("answered").fields[0]) < 10_000:
        time.sleep(0.01)
    made, failed = map(int, driver.ask("stop").fields[:2])
    passed_on = server.passed_on() - before
    expect(failed == 0 and passed_on <= PASSED_ON_MAX * made, passed_on, "of", made, "calls were passed on,", failed, "failed")
    return "%d of %d calls were passed on" % (passed_on, made)


def no_server(driver):
    got = driver.connect("127.0.0.1:1")
    expect(got.outcome != "ok" and got.message and got.code == "08001", got)


def restarts(driver, server, count, every):
    """Every call ends once; what was acknowledged is there, and no more than that and what is unknown."""
    driver.connect(address_of(server))
    driver.sql("DELETE FROM kept")
    driver.ask("hammer", "KEPT.insert", 20)
    for _ in range(count):
        wait_for_more(driver)
        time.sleep(every)
        server.process.kill()
        server.process.wait()
        restart(server)
    wait_for_more(driver)
    made, failed, unknown, not_sent, ids = (driver.ask("stop").fields + [""])[:5]
    acknowledged = {int(each) for each in ids.split(",") if each}
    made, failed, unknown, not_sent = map(int, (made, failed, unknown, not_sent))
    expect(made == len(acknowledged) + failed + unknown + not_sent, made, "calls, ends:", len(acknowledged), failed, unknown, not_sent)
    expect(failed == 0, failed, "failed, though no key comes twice")
    there = set()
    for start in range(0, made, 100_000):
        statement = "SELECT id FROM kept WHERE id >= %d AND id < %d" % (start, start + 100_000)
        there.update(int(row[0]) for row in of_each_partition(driver, statement))
    expect(acknowledged <= there, len(acknowledged - there), "acknowledged rows are lost")
    expect(len(there) <= len(acknowledged) + unknown, len(there), "rows,", len(acknowledged), "acknowledged,", unknown, "unknown")
    return "%d restarts: %d calls, %d acknowledged, %d unknown, %d not sent; %d rows" % (count, made, len(acknowledged), unknown, not_sent, len(there))


def of_each_partition(driver, statement):
    """The rows that a query returns of each partition: several groups of them are not read together."""
    _, keys = driver.call("@GetPartitionKeys", parameter("STRING", "INTEGER")).tables[0]
    for _, key in keys:
        got = driver.call("@AdHocSpForTest", parameter("STRING", statement), parameter("BIGINT", key))
        expect(got.outcome == "ok", statement, key, got)
        yield from got.tables[0][1]


def wait_for_more(driver):
    before = int(driver.ask("answered").fields[0])
    deadline = time.monotonic() + DEADLINE_SECONDS
    while int(driver.ask("answered").fields[0]) < before + 100:
        expect(time.monotonic() < deadline, "too few calls were answered in", DEADLINE_SECONDS, "s")
        time.sleep(0.01)


def restart(server):
    """On the address that it had."""
    server.start(listen=address_of(server))


def address_of(server):
    return "%s:%d" % (server.host, server.port)


GOLDEN = [golden_parameters, golden_answers, golden_answers_in_pieces, later_fields_are_skipped, silence_is_unknown, a_closed_connection_is_unknown, garbage_is_unknown, a_refused_login_is_said, no_server]
LIVE = [values_at_their_edges, polygons, refusals, calls_go_to_the_nodes_that_lead]


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--drivers", default="rust,java,node")
    options.add_argument("--restarts", type=int, default=3)
    options.add_argument("--every", type=float, default=0.2, help="seconds of load before each kill")
    options.add_argument("--only", choices=["golden", "live", "restarts"])
    options = options.parse_args()
    passed, failed = 0, 0

    def run(name, case, *arguments):
        nonlocal passed, failed
        driver = Driver(name)
        began = time.monotonic()
        # A driver that hangs is a failure, not a suite that hangs.
        watchdog = threading.Timer(CASE_SECONDS_MAX + options.restarts * (options.every + DEADLINE_SECONDS), driver.process.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            said = case(driver, *arguments)
            if case not in GOLDEN:
                driver.close()
            passed += 1
            print("ok %s %s, %.1f s%s" % (name, case.__name__, time.monotonic() - began, ": " + said if said else ""))
        except Exception:
            failed += 1
            print("not ok %s %s" % (name, case.__name__))
            traceback.print_exc(file=sys.stdout)
        finally:
            watchdog.cancel()
            driver.end()
        sys.stdout.flush()

    for name in options.drivers.split(","):
        if options.only in (None, "golden"):
            for case in GOLDEN:
                run(name, case)
        if options.only == "golden":
            continue
        with Server(partitions=3, durability="sync", schema=schema()) as server:
            if options.only in (None, "live"):
                for case in LIVE:
                    run(name, case, server)
            if options.only in (None, "restarts"):
                run(name, restarts, server, options.restarts, options.every)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


def schema():
    return HERE / "schema.sql"


if __name__ == "__main__":
    sys.exit(main())
