"""Sends the table of tests/clients with the library `datadog`: client.py ADDRESS"""

import sys
from urllib.parse import urlsplit

from datadog.dogstatsd import DogStatsd

STAMP = 1700000000


def connect(address):
    parts = urlsplit(address)
    if parts.scheme == "udp":
        where = {"host": parts.hostname, "port": parts.port}
    else:
        scheme = {"unixgram": "unixgram", "unix": "unixstream"}[parts.scheme]
        where = {"socket_path": "%s://%s" % (scheme, parts.path)}
    return DogStatsd(constant_tags=["lang:python"], disable_buffering=False, **where)


def send(client):
    for i in range(1, 101):
        client.increment("client.requests", tags=["route:/a"])
        client.count("client.bytes", i, tags=["route:/a", "code:200"])
        client.increment("client.balance", 3, tags=["urgent"])
        client.decrement("client.balance", tags=["urgent"])
        client.gauge("client.level", i)
        client.gauge("client.cold", -i / 2)
        client.timing("client.wait", i, tags=["route:/a"])
        client.histogram("client.size", 1.5 * i)
        client.distribution("client.spread", 2 * i)
        client.set("client.users", "user-%d" % (i % 7))
    client.gauge_with_timestamp("client.stamped", 7.5, STAMP)
    client.count_with_timestamp("client.stamped.count", 12, STAMP)
    client.event(
        "deployed", "version 2\non all hosts", alert_type="warning", aggregation_key="deploys",
        priority="low", tags=["team:web"],
    )
    client.service_check("client.database", client.CRITICAL, message="no answer", tags=["team:web"])


client = connect(sys.argv[1])
client.set_socket_timeout(10)
send(client)
client.flush()
client.stop()
