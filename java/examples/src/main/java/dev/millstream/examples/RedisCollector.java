package dev.millstream.examples;

import dev.millstream.collector.Collector;
import dev.millstream.collector.CollectorContext;
import dev.millstream.collector.Events;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.resps.Slowlog;

/**
 * Collects the state of a Redis server, using the Jedis SDK. For a {@code jvm} source with an {@code interval}.
 *
 * <p>Each section of {@code INFO} becomes an event with the section name as its message. Each slow log entry becomes an event with the
 * command as its message, and is sent once. After an agent restart, the collector resends the entries that the server still has.
 *
 * <p>In addition to this collector's jar, the source must list the Jedis jars: {@code jedis}, {@code commons-pool2}, {@code slf4j-api},
 * {@code gson} and {@code json}.
 *
 * <p>Options: {@code address}, by default {@code 127.0.0.1:6379}; {@code user}, {@code password}; {@code slow_log}, the maximum number of
 * slow log entries per call, by default 128.
 */
public final class RedisCollector implements Collector {
    private static final int TIMEOUT_MS = 2_000;
    private static final String LAST_ID = "last_id";
    private static final String RUN_ID = "run_id";

    private HostAndPort address;
    private JedisClientConfig config;
    private long entriesMax;
    private Map<String, Object> state;

    /** Creates the collector. */
    public RedisCollector() {}

    @Override
    public void open(CollectorContext context) {
        Map<String, Object> options = context.options();
        address = HostAndPort.from(String.valueOf(options.getOrDefault("address", "127.0.0.1:6379")));
        entriesMax = ((Number) options.getOrDefault("slow_log", 128L)).longValue();
        config = DefaultJedisClientConfig.builder()
                .timeoutMillis(TIMEOUT_MS)
                .user((String) options.get("user"))
                .password((String) options.get("password"))
                .build();
        state = context.state();
    }

    @Override
    public void collect(Events events) {
        // Open a new connection for each call, so that no broken connection remains.
        try (Jedis redis = new Jedis(address, config)) {
            Map<String, Map<String, Object>> sections = sections(redis.info());
            sections.forEach(events::add);
            addSlow(events, redis.slowlogGet(entriesMax), sections.getOrDefault("server", Map.of()).get(RUN_ID));
        }
    }

    /** Adds the new slow log entries. */
    private void addSlow(Events events, List<Slowlog> entries, Object runId) {
        if (!String.valueOf(runId).equals(state.put(RUN_ID, String.valueOf(runId)))) {
            // The server has restarted, so its entry ids start over.
            state.remove(LAST_ID);
        }
        Map<Long, Slowlog> newest = new TreeMap<>();
        long last = (Long) state.getOrDefault(LAST_ID, -1L);
        entries.stream().filter(entry -> entry.getId() > last).forEach(entry -> newest.put(entry.getId(), entry));
        newest.forEach((id, entry) -> {
            events.add(String.join(" ", entry.getArgs()), fields(entry));
            state.put(LAST_ID, id);
        });
    }

    private static Map<String, Object> fields(Slowlog entry) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("timestamp", Instant.ofEpochSecond(entry.getTimeStamp()));
        fields.put("slow_id", entry.getId());
        fields.put("duration_us", entry.getExecutionTime());
        fields.put("client", String.valueOf(entry.getClientIpPort()));
        return fields;
    }

    /** Parses the response to {@code INFO}: sections, each with a name line followed by lines of names and values. */
    private static Map<String, Map<String, Object>> sections(String info) {
        Map<String, Map<String, Object>> sections = new LinkedHashMap<>();
        Map<String, Object> current = new LinkedHashMap<>();
        for (String line : info.split("\r?\n")) {
            int colon = line.indexOf(':');
            if (line.startsWith("# ")) {
                current = new LinkedHashMap<>();
                sections.put(line.substring(2).toLowerCase(Locale.ROOT), current);
            } else if (colon > 0) {
                current.put(line.substring(0, colon), value(line.substring(colon + 1)));
            }
        }
        return sections;
    }

    private static Object value(String text) {
        if (text.matches("-?\\d{1,18}")) {
            return Long.valueOf(text);
        }
        return text.matches("-?\\d+\\.\\d+") ? (Object) Double.valueOf(text) : text;
    }
}
