/**
 * A Java agent that sends events of the JDK's flight recorder as metrics and log events to the source {@code metricserver} of an agent on
 * the same host. {@link dev.millstream.javaagent.Agent} starts it.
 */
package dev.millstream.javaagent;
