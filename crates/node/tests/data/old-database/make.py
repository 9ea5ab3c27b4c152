#!/usr/bin/env python3
"""Makes old databases: make.py SERVER DIRECTORY, where SERVER is the program `ferrite` as commit 8794d8c builds it, and the
directory, this one or `../old-sums`, says what is in them. For `../old-literals` it is the program of commit dae9795b.

Each archive is a gzip stream of files: two bytes of the name's length, the name, eight bytes of the file's length, eight of how many
follow, and these; what is missing at the end are zeros. Integers are little-endian.
"""
import gzip, pathlib, signal, socket, struct, subprocess, sys, tempfile

SERVER, HERE = sys.argv[1], pathlib.Path(sys.argv[2])


def free_port():
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


def sql(port, text):
    command = [SERVER, "sql", "-s", f"127.0.0.1:{port}", "--csv", "-f", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def answers(port):
    lines = [line for line in (HERE / "asked.sql").read_text().splitlines() if line]
    # Without the line of column names.
    return "".join(f"{line}\n" + "".join(f"{row}\n" for row in sql(port, line).splitlines()[1:]) for line in lines)


def pack(directory, archive):
    with gzip.GzipFile(archive, "wb", 9, mtime=0) as out:
        for path in sorted(directory.rglob("*")):
            if path.is_file() and path.name != "LOCK":
                name, data = str(path.relative_to(directory)).encode(), path.read_bytes()
                kept = data.rstrip(b"\0")
                out.write(struct.pack("<H", len(name)) + name + struct.pack("<QQ", len(data), len(kept)) + kept)


for kind in ("log", "snapshot"):
    with tempfile.TemporaryDirectory() as directory:
        port = free_port()
        command = [SERVER, "server", "--dir", f"{directory}/data", "--listen", f"127.0.0.1:{port}", "--partitions", "2"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while "ready" not in server.stdout.readline():
            pass
        sql(port, (HERE / "made.sql").read_text())
        if kind == "snapshot":
            sql(port, "EXEC @SnapshotSave;")
        sql(port, (HERE / "then.sql").read_text())
        (HERE / "answers.txt").write_text(answers(port))
        server.send_signal(signal.SIGTERM)
        server.wait()
        pack(pathlib.Path(directory) / "data", HERE / f"{kind}.gz")
