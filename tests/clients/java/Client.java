import com.timgroup.statsd.Event;
import com.timgroup.statsd.NonBlockingStatsDClientBuilder;
import com.timgroup.statsd.ServiceCheck;
import com.timgroup.statsd.StatsDClient;

/** Sends the table of tests/clients with java-dogstatsd-client. Usage: Client ADDRESS */
public final class Client {
    private static final long STAMP = 1700000000;

    private static StatsDClient connect(String address) {
        NonBlockingStatsDClientBuilder builder = new NonBlockingStatsDClientBuilder()
            .constantTags("lang:java")
            // A full queue makes calls wait. A datagram waits for buffer space.
            .blocking(true)
            .timeout(10_000)
            .errorHandler(error -> {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
            });
        if (address.startsWith("udp://")) {
            String[] parts = address.substring("udp://".length()).split(":");
            return builder.hostname(parts[0]).port(Integer.parseInt(parts[1])).build();
        }
        return builder.address(address.replaceFirst("^unix://", "unixstream://")).build();
    }

    private static void send(StatsDClient client) {
        for (int i = 1; i <= 100; i++) {
            client.increment("client.requests", "route:/a");
            client.count("client.bytes", i, "route:/a", "code:200");
            client.count("client.balance", 3, "urgent");
            client.decrement("client.balance", "urgent");
            client.gauge("client.level", i);
            client.gauge("client.cold", -i / 2.0);
            client.time("client.wait", i, "route:/a");
            client.histogram("client.size", 1.5 * i);
            client.distribution("client.spread", 2.0 * i);
            client.recordSetValue("client.users", "user-" + i % 7);
        }
        client.gaugeWithTimestamp("client.stamped", 7.5, STAMP);
        client.countWithTimestamp("client.stamped.count", 12, STAMP);
        Event event = Event.builder()
            .withTitle("deployed")
            .withText("version 2\non all hosts")
            .withAlertType(Event.AlertType.WARNING)
            .withAggregationKey("deploys")
            .withPriority(Event.Priority.LOW)
            .build();
        client.recordEvent(event, "team:web");
        client.serviceCheck(ServiceCheck.builder()
            .withName("client.database")
            .withStatus(ServiceCheck.Status.CRITICAL)
            .withMessage("no answer")
            .withTags(new String[] {"team:web"})
            .build());
    }

    public static void main(String[] args) {
        StatsDClient client = connect(args[0]);
        send(client);
        // Sends all queued metrics, then stops.
        client.close();
    }
}
