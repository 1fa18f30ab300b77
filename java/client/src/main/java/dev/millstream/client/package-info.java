/**
 * Metrics to a Millstream agent of the same host, in the metric server's msgpack protocol.
 *
 * <p>{@link dev.millstream.client.MetricClient} is where to begin. Calls that record a value allocate nothing and wait for nobody.
 */
package dev.millstream.client;
