/**
 * The API of collectors: code in Java and Groovy that makes events inside the Millstream agent, by the SDK of what it observes.
 *
 * <p>A source {@code jvm} runs a collector on a thread that all collectors share. With an {@code interval}, {@link Collector#collect} asks
 * once and returns, as long as that takes less than {@code timeout}. Without an interval, it may block, for example in a subscription; then
 * it occupies its thread until it returns.
 *
 * <pre>{@code
 * public final class Uptime implements Collector {
 *     public void collect(Events events) {
 *         events.add("uptime", Map.of("ms", ManagementFactory.getRuntimeMXBean().getUptime()));
 *     }
 * }
 * }</pre>
 *
 * <p>A script in Groovy is the body of {@code collect}, and has the variables {@code events}, {@code options}, {@code state} and
 * {@code context}. What it opens and keeps in {@code state}, it closes in a method {@code void close()}:
 *
 * <pre>{@code
 * Jedis redis = (Jedis) state.computeIfAbsent('redis') { new Jedis(options.host as String, 6379) }
 * events.add('memory', [used: redis.memoryUsage('key')])
 *
 * void close() { ((Jedis) state.redis)?.close() }
 * }</pre>
 *
 * <p>Shutdown or the timeout interrupts the thread of a call, and {@link Events} then throws {@link CollectorStoppedException}. A call that
 * does not end within five more seconds hangs: the collector is called again only after it has returned, and keeps its thread.
 */
package dev.millstream.collector;
