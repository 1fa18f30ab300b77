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
 * Asks a Redis server for its state, by the SDK Jedis. For a source {@code jvm} with an {@code interval}.
 *
 * <p>Each section of {@code INFO} is an event with the name of the section as its message. Each entry of the slow log is an event with its
 * command as its message, once. After a restart of the agent, the entries that the server still has are sent again.
 *
 * <p>Beside its own jar, its source names those of Jedis: {@code jedis}, {@code commons-pool2}, {@code slf4j-api}, {@code gson} and
 * {@code json}.
 *
 * <p>Options: {@code address}, by default {@code 127.0.0.1:6379}; {@code user}, {@code password}; {@code slow_log}, the most entries of a
 * call, by default 128.
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
        // A connection for each call: none is left broken.
        try (Jedis redis = new Jedis(address, config)) {
            Map<String, Map<String, Object>> sections = sections(redis.info());
            sections.forEach(events::add);
            addSlow(events, redis.slowlogGet(entriesMax), sections.getOrDefault("server", Map.of()).get(RUN_ID));
        }
    }

    /** Adds the entries that are new. */
    private void addSlow(Events events, List<Slowlog> entries, Object runId) {
        if (!String.valueOf(runId).equals(state.put(RUN_ID, String.valueOf(runId)))) {
            // Another process: its ids start again.
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

    /** Parses what {@code INFO} returns: lines of names and values, below the names of sections. */
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
