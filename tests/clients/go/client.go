// Sends the table of tests/clients with the library datadog-go: client ADDRESS
package main

import (
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/DataDog/datadog-go/v5/statsd"
)

// target is the address as the library writes it.
func target(address string) string {
	address = strings.TrimPrefix(address, "udp://")
	if strings.HasPrefix(address, "unix://") {
		return strings.Replace(address, "unix", "unixstream", 1)
	}
	return address
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func send(client *statsd.Client) {
	stamp := time.Unix(1700000000, 0)
	route := []string{"route:/a"}
	for i := 1; i <= 100; i++ {
		value := float64(i)
		must(client.Incr("client.requests", route, 1))
		must(client.Count("client.bytes", int64(i), []string{"route:/a", "code:200"}, 1))
		must(client.Count("client.balance", 3, []string{"urgent"}, 1))
		must(client.Decr("client.balance", []string{"urgent"}, 1))
		must(client.Gauge("client.level", value, nil, 1))
		must(client.Gauge("client.cold", -value/2, nil, 1))
		must(client.TimeInMilliseconds("client.wait", value, route, 1))
		must(client.Histogram("client.size", 1.5*value, nil, 1))
		must(client.Distribution("client.spread", 2*value, nil, 1))
		must(client.Set("client.users", fmt.Sprintf("user-%d", i%7), nil, 1))
	}
	must(client.GaugeWithTimestamp("client.stamped", 7.5, nil, 1, stamp))
	must(client.CountWithTimestamp("client.stamped.count", 12, nil, 1, stamp))
	must(client.Event(&statsd.Event{
		Title:          "deployed",
		Text:           "version 2\non all hosts",
		AlertType:      statsd.Warning,
		AggregationKey: "deploys",
		Priority:       statsd.Low,
		Tags:           []string{"team:web"},
	}))
	must(client.ServiceCheck(&statsd.ServiceCheck{
		Name:    "client.database",
		Status:  statsd.Critical,
		Message: "no answer",
		Tags:    []string{"team:web"},
	}))
}

func main() {
	client, err := statsd.New(target(os.Args[1]), statsd.WithTags([]string{"lang:go"}),
		statsd.WithWriteTimeout(10*time.Second))
	must(err)
	send(client)
	must(client.Flush())
	must(client.Close())
}
