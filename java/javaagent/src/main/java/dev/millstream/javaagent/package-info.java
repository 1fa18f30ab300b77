/**
 * A Java agent that sends events of the JDK's flight recorder as metrics and log events to the {@code metricserver} source of a Millstream
 * agent on the same host. {@link dev.millstream.javaagent.Agent} starts the Java agent.
 */
package dev.millstream.javaagent;
