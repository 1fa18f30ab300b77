"""Decompresses the output of the Rust side with independent decoders.

Standard input: for each buffer a line `ALGORITHM COMPRESSED_BYTES PLAIN_BYTES`, then both buffers.
Prints the number of buffers; fails at the first one that decompresses to other bytes.
"""

import gzip
import sys
import zlib


def snappy(data):
    """A snappy block (https://github.com/google/snappy/blob/main/format_description.txt)."""
    size = shift = at = 0
    while True:
        size |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            break
    out = bytearray()
    while at < len(data):
        tag = data[at]
        at += 1
        if tag & 3 == 0:
            count = (tag >> 2) + 1
            if count > 60:
                width = count - 60
                count = int.from_bytes(data[at : at + width], "little") + 1
                at += width
            out += data[at : at + count]
            at += count
            continue
        width = (1, 2, 4)[(tag & 3) - 1]
        distance = int.from_bytes(data[at : at + width], "little")
        at += width
        if tag & 3 == 1:
            count, distance = (tag >> 2 & 7) + 4, distance | tag >> 5 << 8
        else:
            count = (tag >> 2) + 1
        copy(out, distance, count)
    assert len(out) == size, (len(out), size)
    return bytes(out)


def lz4(data):
    """An LZ4 frame of independent blocks; the content checksum is not verified."""
    assert data[:4] == b"\x04\x22\x4d\x18", data[:4]
    flags = data[4]
    assert flags >> 6 == 1 and flags & 0b00100000 and flags & 0b00000100 and not flags & 0b00011011, bin(flags)
    out, at = bytearray(), 7
    while True:
        size = int.from_bytes(data[at : at + 4], "little")
        at += 4
        if size == 0:
            break
        block = data[at : at + (size & 0x7FFFFFFF)]
        at += len(block)
        out += block if size >> 31 else lz4_block(block)
    assert len(data) == at + 4, "only a checksum follows"
    return bytes(out)


def lz4_block(data):
    out, at = bytearray(), 0

    def length(value):
        nonlocal at
        more = value == 15
        while more:
            value += data[at]
            more = data[at] == 255
            at += 1
        return value

    while True:
        token = data[at]
        at += 1
        count = length(token >> 4)
        out += data[at : at + count]
        at += count
        if at == len(data):
            return out
        distance = int.from_bytes(data[at : at + 2], "little")
        at += 2
        copy(out, distance, length(token & 15) + 4)


def copy(out, distance, count):
    """Copies `count` bytes from `distance` bytes before the end; they may overlap."""
    assert 0 < distance <= len(out), (distance, len(out))
    for _ in range(count):
        out.append(out[-distance])


DECODERS = {
    "gzip": gzip.decompress,
    "deflate": zlib.decompress,
    "snappy": snappy,
    "lz4": lz4,
}

read = 0
while line := sys.stdin.buffer.readline():
    algorithm, compressed, plain = line.decode().split()
    compressed = sys.stdin.buffer.read(int(compressed))
    plain = sys.stdin.buffer.read(int(plain))
    assert DECODERS[algorithm](compressed) == plain, (algorithm, read)
    read += 1
print(read)
