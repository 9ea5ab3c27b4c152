"""Makes the golden files, after docs/format/snapshot.md and nothing else: python3 make.py"""

import struct

TABLE = []
for byte in range(256):
    value = byte
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    TABLE.append(value)


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


DATABASE = b"0123456789abcdef"
SNAPSHOT, PARTITION, TAKEN = 7, 1, 1_234_567
blocks = []


def block(kind, table, rows, payload):
    number = len(blocks)
    previous = blocks[-1][0] if blocks else 0
    rest = struct.pack("<IIQIIIII", kind, len(payload), SNAPSHOT, PARTITION, number, table, rows, previous)
    rest += bytes(20) + payload
    checksum = crc32c(DATABASE + rest)
    whole = b"FSNB" + struct.pack("<I", checksum) + rest
    blocks.append((checksum, whole + bytes(-len(whole) % 4096)))


def text(value, size):
    return struct.pack("<I", len(value)) + value if size == 4 else struct.pack("<H", len(value)) + value


# One table: A BIGINT NOT NULL, B VARCHAR(3 BYTES), C VARCHAR(100 BYTES); rows 0, 1 and 3.
row_bytes = 1 + 8 + 4 + 8
block(1, 0, 0, struct.pack("<I", 1) + DATABASE + struct.pack("<Iq", 2, TAKEN))
columns = [(4, 0, 8), (11, 1, 4), (14, 1, 8)]
shape = struct.pack("<IIIQH", 0, row_bytes, 1, 3, len(columns))
shape += b"".join(struct.pack("<BBH", *column) for column in columns) + text(b"T", 2)
block(2, 0, 0, shape)


def row(nulls, a, b):
    return bytes([nulls]) + struct.pack("<q", a) + bytes([len(b)]) + b.ljust(3, b"\0") + bytes(8)


payload = struct.pack("<II", 0, 2) + row(0, 10, b"one") + row(1, -1, b"")
payload += text(b"a value behind a handle", 4) + text(b"", 4)
payload += struct.pack("<II", 3, 1) + row(2, 30, b"x") + text(b"", 4)
block(3, 0, 3, payload)
block(4, 0, 0, struct.pack("<IQ", 3, 3))
rows = b"".join(bytes for _, bytes in blocks)
open("partition.rows", "wb").write(rows)

body = DATABASE + struct.pack("<QqIQ", SNAPSHOT, TAKEN, 2, 99) + b"fedcba9876543210"
body += struct.pack("<QQQI", 4, 8192, 55, 0xDEADBEEF) + struct.pack("<Q", 3)
body += b"\1" + struct.pack("<QII", 2, 5, 6) + text(b"CREATE ROLE r;", 4)
body += struct.pack("<II", 1, 0) + text(b"T", 2) + struct.pack("<II", 1, 4) + text(b"T\0I", 2)
body += struct.pack("<IQq", 1, 3, -5) + text(b"DROP ROLE r", 4)
body += struct.pack("<I", 2)
for sequence in (10, 20):
    body += struct.pack("<QQQIIQ", 1, sequence, len(rows), 4, blocks[-1][0], 3)
summed = struct.pack("<Q", 24 + len(body)) + body
open("snapshot.manifest", "wb").write(b"FERRSNAP" + struct.pack("<II", 1, crc32c(summed)) + summed)
