#!/usr/bin/env python3
"""A server for frames with acknowledgements, as docs/formats/tcp-frames.md describes them.

    python3 tcp_frames.py PORT FILE

Appends the events of all sessions to FILE. FILE.sessions says how far each session has come, and how
long FILE was then: what a crash left behind that is cut off at the next start. So each batch is in FILE
once, however often it is sent. Port 0 takes a free one; the first line of output says which.
"""

import gzip
import json
import os
import socketserver
import struct
import sys
import threading
import zlib

DECOMPRESS = {0: bytes, 1: gzip.decompress, 2: zlib.decompress}


class Store:
    """A file of events, and the highest number of each session in it."""

    def __init__(self, path):
        self.lock = threading.Lock()
        self.state = path + ".sessions"
        self.sessions, length = {}, 0
        if os.path.exists(self.state):
            with open(self.state) as state:
                self.sessions, length = json.load(state)
        self.events = open(path, "ab")
        self.events.truncate(length)

    def highest(self, session):
        with self.lock:
            return self.sessions.get(session, 0)

    def settle(self, session, number, batch):
        """Keeps a batch, unless it is there already. On return it is on disk."""
        with self.lock:
            if number <= self.sessions.get(session, 0):
                return
            self.events.write(batch)
            self.events.flush()
            os.fsync(self.events.fileno())
            self.sessions[session] = number
            self.save()

    def save(self):
        draft = self.state + ".draft"
        with open(draft, "w") as state:
            json.dump([self.sessions, self.events.tell()], state)
            state.flush()
            os.fsync(state.fileno())
        os.replace(draft, self.state)


class Agent(socketserver.StreamRequestHandler):
    """One connection of an agent."""

    def handle(self):
        try:
            self.converse()
        except ConnectionError:
            pass  # What is not acknowledged comes again.

    def converse(self):
        hello = self.frame()
        if hello is None or hello[:2] != b"H\x01":
            return
        decompress = DECOMPRESS.get(hello[2])
        if decompress is None or hello[3] > 1:
            print("this server reads JSON and text, plain, gzip or zlib", file=sys.stderr)
            return
        store, session = self.server.store, hello[4:20].hex()
        self.answer(b"A", store.highest(session))
        while (frame := self.frame()) is not None:
            number, events = struct.unpack(">QI", frame[1:13])
            try:
                batch = decompress(frame[13:])
            except (OSError, EOFError, zlib.error) as error:
                self.answer(b"R", number, str(error).encode()[:4000])
                continue
            if batch.count(b"\n") < events:
                self.answer(b"R", number, b"fewer events than it says")
                continue
            store.settle(session, number, batch)
            self.answer(b"A", number)

    def frame(self):
        """The next whole frame, without its length; None at the end of the connection."""
        head = self.rfile.read(4)
        if len(head) < 4:
            return None
        length = struct.unpack(">I", head)[0]
        frame = self.rfile.read(length)
        return frame if len(frame) == length else None

    def answer(self, kind, number, reason=b""):
        self.wfile.write(struct.pack(">IcQ", 9 + len(reason), kind, number) + reason)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def main():
    port, path = int(sys.argv[1]), sys.argv[2]
    with Server(("127.0.0.1", port), Agent) as server:
        server.store = Store(path)
        print(server.server_address[1], flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
