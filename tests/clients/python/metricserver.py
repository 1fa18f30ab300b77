"""Sends points in msgpack: metricserver.py ADDRESS

A connection or datagram socket gets, for i from 1 to 100: the counter `client.requests` 1, the rate
counter `client.calls` 3, the meter `client.reads` 2, the timer `client.wait` i, the store `client.level`
i, the histogram `client.size` i; and once the timed store `client.stamped` 7.5. Single points and arrays
of points, text as `str` and as `bin`, are mixed; a line of plain text comes first.
"""

import socket
import struct
import sys
from urllib.parse import urlsplit

import msgpack

STAMP = "1700000000"


def connect(address):
    parts = urlsplit(address)
    if parts.scheme == "udp":
        kind, where = (socket.AF_INET, socket.SOCK_DGRAM), (parts.hostname, parts.port)
    else:
        kinds = {"unixgram": socket.SOCK_DGRAM, "unixpacket": socket.SOCK_SEQPACKET, "unix": socket.SOCK_STREAM}
        kind, where = (socket.AF_UNIX, kinds[parts.scheme]), parts.path
    connection = socket.socket(*kind)
    connection.connect(where)
    has_lengths = parts.scheme == "unix"

    def send(message):
        prefix = struct.pack("<I", len(message)) if has_lengths else b""
        connection.sendall(prefix + message)

    return send


def point(kind, name, value, tags="", stamp=""):
    return ["emit", kind, name, str(value), tags, stamp]


def points(i):
    tags = "route=/a|lang=msgpack"
    return [
        point("counter", "client.requests", 1, tags),
        point("rate_counter", "client.calls", 3, tags),
        point("meter", "client.reads", 2, "lang=msgpack|route=/a"),
        point("timer", "client.wait", i, tags),
        point("store", "client.level", i, tags),
        point("histogram", "client.size", i, tags),
    ]


def pack(message, i):
    """Every other message has its texts as `bin`."""
    if i % 2 == 0:
        return msgpack.packb(message)
    texts = [[text.encode() for text in one] for one in message] if isinstance(message[0], list) else [
        text.encode() for text in message]
    return msgpack.packb(texts, use_bin_type=True)


send = connect(sys.argv[1])
send(b"hello from a client\n")
for i in range(1, 101):
    if i % 3 == 0:
        for one in points(i):
            send(pack(one, i))
    else:
        send(pack(points(i), i))
send(msgpack.packb(point("ts_store", "client.stamped", 7.5, "lang=msgpack", STAMP)))
