/**
 * The API of collectors: Java and Groovy code that creates events inside the Millstream agent, using the SDK of the observed system.
 *
 * <p>A {@code jvm} source runs a collector on a thread that all collectors share. With an {@code interval}, {@link Collector#collect} polls
 * once and returns; the call may take up to {@code timeout}. Without an interval, the call may block, for example in a subscription. The
 * call then occupies its thread until it returns.
 *
 * <pre>{@code
 * public final class Uptime implements Collector {
 *     public void collect(Events events) {
 *         events.add("uptime", Map.of("ms", ManagementFactory.getRuntimeMXBean().getUptime()));
 *     }
 * }
 * }</pre>
 *
 * <p>A Groovy script is the body of {@code collect}, and has the variables {@code events}, {@code options}, {@code state} and
 * {@code context}. A script that opens resources and keeps them in {@code state} closes the resources in a {@code void close()} method:
 *
 * <pre>{@code
 * Jedis redis = (Jedis) state.computeIfAbsent('redis') { new Jedis(options.host as String, 6379) }
 * events.add('memory', [used: redis.memoryUsage('key')])
 *
 * void close() { ((Jedis) state.redis)?.close() }
 * }</pre>
 *
 * <p>A stop or the timeout interrupts the thread of a call, and {@link Events} then throws {@link CollectorStoppedException}. A call that
 * does not end within another five seconds hangs: the call keeps its thread, and the agent calls the collector again only after the call
 * has returned.
 */
package dev.millstream.collector;
