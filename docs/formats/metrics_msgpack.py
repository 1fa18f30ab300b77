"""Reads the metrics of codec `msgpack`: see metrics-msgpack.md. Needs nothing but Python 3.

As a program it prints the events of a body, a record or a file of them as JSON, one per line:

    python3 metrics_msgpack.py < body
"""

import itertools
import json
import struct
import sys

KINDS = ("counter", "gauge", "distribution")
TEMPORALITIES = (None, "delta", "cumulative")


def events(body):
    """Yields every metric as a dict; `time_ns` is the end of its period in nanoseconds since 1970."""
    at = 0
    while at < len(body):
        block, at = unpack(body, at)
        yield from events_of(block)


def events_of(block):
    """Yields the metrics of one block, as any msgpack library gives it."""
    if block["v"] != 1:
        raise ValueError("version %r is not known" % block["v"])
    new_values = [itertools.count() for _ in block["keys"]]
    tagsets = [tags_of(block, new_values, *tagset) for tagset in block["tagsets"]]
    column = lambda name: each(block[name])
    rows = zip(column("name"), sums(block["tags"]), column("type"), sums(block["time"]), column("interval"), block["value"])
    for name, tagset, kind, time_ns, interval, value in rows:
        temporality, kind = divmod(kind, 3)
        event = {"time_ns": time_ns, "name": block["names"][name], "tags": tagsets[tagset], "type": KINDS[kind]}
        event["value"] = value if kind != 2 else sketch(*value)
        if temporality:
            event["temporality"] = TEMPORALITIES[temporality]
        if interval:
            event["interval"] = interval
        yield {**event, **block.get("attributes", {}), "meta": block.get("meta", {})}


def each(column):
    """A column is a number for each row, or one number that all rows have."""
    return column if isinstance(column, list) else itertools.repeat(column)


def sums(column):
    """Columns of differences. Sums are signed numbers of 64 bits."""
    if not isinstance(column, list):
        return itertools.repeat(column)
    return ((total + 2**63) % 2**64 - 2**63 for total in itertools.accumulate(column))


def tags_of(block, new_values, keyset, *values):
    """A tag set. A key with several values has a list of them; a tag without a value has `true`."""
    tags = {}
    for key, value in zip(block["keysets"][keyset], values):
        text = block["values"][key][value - 1 if value else next(new_values[key])]
        tags.setdefault(block["keys"][key], []).append(text if text else True)
    return {key: values if len(values) > 1 else values[0] for key, values in tags.items()}


def sketch(count, total, least, most, values, weights):
    weights = weights if isinstance(weights, list) else [weights] * len(values)
    return {"count": count, "sum": total, "min": least, "max": most, "values": values, "weights": weights}


def unpack(data, at):
    """Reads one msgpack value: what it is, and where the next one begins."""
    first, at = data[at], at + 1
    if first < 0x80 or first >= 0xE0:
        return first - (0x100 if first >= 0xE0 else 0), at
    if first < 0xC0:
        if first >= 0xA0:
            return text(data, at, first & 31)
        return several(data, at, first & 15, is_map=first < 0x90)
    numbers = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q"}
    numbers.update({0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"})
    if first in numbers:
        form = numbers[first]
        return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
    if first in (0xD9, 0xDA, 0xDB, 0xDC, 0xDD, 0xDE, 0xDF):
        width = {0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}[first]
        size, at = int.from_bytes(data[at : at + width], "big"), at + width
        return text(data, at, size) if first < 0xDC else several(data, at, size, is_map=first >= 0xDE)
    raise ValueError("byte %#x has no meaning in a block" % first)


def text(data, at, size):
    return bytes(data[at : at + size]).decode(), at + size


def several(data, at, size, is_map):
    items = []
    for _ in range(size * 2 if is_map else size):
        item, at = unpack(data, at)
        items.append(item)
    return (dict(zip(items[::2], items[1::2])) if is_map else items), at


if __name__ == "__main__":
    for event in events(sys.stdin.buffer.read()):
        print(json.dumps(event, ensure_ascii=False))
