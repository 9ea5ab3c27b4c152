"""The published Python client: votes from one thread. Arguments: host:port, warm-up seconds, seconds, calls outstanding."""

import json
import random
import resource
import sys
import threading
import time

from voltclient import VoltClient, VoltType

AREAS = [205, 212, 213, 312, 415, 617, 702, 808, 907, 971]
TYPES = [VoltType.BIGINT, VoltType.INTEGER, VoltType.BIGINT]


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    warmup, seconds, outstanding = float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    client = VoltClient([host], int(port), max_outstanding=outstanding)
    lock = threading.Lock()
    counts = {"answered": 0, "succeeded": 0, "accepted": 0, "failed": 0}

    def ended(future):
        # The client calls this from its reading thread, or from this one where the answer is there
        # already.
        success = future.exception() is None and future.result().status == 1
        with lock:
            counts["answered"] += 1
            counts["succeeded" if success else "failed"] += 1
            if success and future.result().tables[0].tuples[0][0] == 0:
                counts["accepted"] += 1

    sent = 0

    def until(span):
        nonlocal sent
        end = time.monotonic() + span
        while time.monotonic() < end:
            phone = random.choice(AREAS) * 10_000_000 + random.randrange(10_000_000)
            client.call_async("Vote", TYPES, [phone, random.randint(1, 6), 2]).add_done_callback(ended)
            sent += 1

    until(warmup)
    with lock:
        before = dict(counts)
    began, used = time.monotonic(), cpu()
    until(seconds)
    measured, used = time.monotonic() - began, cpu() - used
    with lock:
        after = dict(counts)
    deadline = time.monotonic() + 60
    while counts["answered"] < sent and time.monotonic() < deadline:
        time.sleep(0.01)
    client.close()
    print(json.dumps({
        "transactions": after["succeeded"] - before["succeeded"],
        "answered": after["answered"] - before["answered"],
        "seconds": measured,
        "cpu_microseconds": used * 1e6,
        "accepted": counts["accepted"],
        "failed": counts["failed"] + sent - counts["answered"],
    }))


if __name__ == "__main__":
    main()
