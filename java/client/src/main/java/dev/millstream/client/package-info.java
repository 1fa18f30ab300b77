/**
 * Sends metrics to a Millstream agent on the same host, using the metric server's msgpack protocol.
 *
 * <p>{@link dev.millstream.client.MetricClient} is the entry point. Calls that record a value never allocate and never block.
 */
package dev.millstream.client;
