"""A listener that speaks the client protocol as a test wants it: it takes logins, answers what drivers ask for themselves, and lets the test
decide what becomes of the calls. One thread per connection, all of which end with the listener."""

import queue
import socket
import struct
import threading


class Listener:
    """`answer(name, parameters, handle)` gives the bytes to send, or None for silence; an exception closes the connection."""

    def __init__(self, login, answer, byte_by_byte=False):
        self.login = login
        self.answer = answer
        self.byte_by_byte = byte_by_byte
        self.requests = queue.Queue()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        self.open = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        for connection in self.open:
            connection.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            read_frame(connection)
            connection.sendall(self.login)
            while True:
                kind, name, handle, parameters = parse_request(read_frame(connection))
                if name.startswith("@") and name != "@AdHoc":
                    connection.sendall(failure(handle))
                    continue
                self.requests.put((kind, name, parameters))
                self._send(connection, self.answer(name, parameters, handle))
        except (OSError, EOFError):
            connection.close()

    def _send(self, connection, data):
        if data is None:
            return
        step = 1 if self.byte_by_byte else len(data)
        for at in range(0, len(data), step):
            connection.sendall(data[at : at + step])


def read_exactly(connection, count):
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def read_frame(connection):
    (length,) = struct.unpack(">i", read_exactly(connection, 4))
    return read_exactly(connection, length)


def parse_request(frame):
    """Type, name, handle (eight bytes), parameter bytes. Extensions of type 2 are skipped by their size codes."""
    kind = frame[0]
    (length,) = struct.unpack_from(">i", frame, 1)
    name = frame[5 : 5 + length].decode("utf-8")
    at = 5 + length
    handle = frame[at : at + 8]
    at += 8
    if kind == 2:
        extensions = frame[at]
        at += 1
        for _ in range(extensions):
            size = frame[at + 1]
            at += 2 + (0 if size == 0 else 1 << (size - 1))
    return kind, name, handle, frame[at:]


def with_handle(answer, handle):
    """A golden answer with the handle of the call: length, version, handle, the rest."""
    return answer[:5] + handle + answer[13:]


def failure(handle):
    """Status -2 without tables."""
    body = b"\x00" + handle + b"\x00" + struct.pack(">b", -2) + struct.pack(">b", -128) + struct.pack(">i", 0) + struct.pack(">h", 0)
    return struct.pack(">i", len(body)) + body
