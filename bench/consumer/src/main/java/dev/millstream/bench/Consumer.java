package dev.millstream.bench;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.Logger;
import org.apache.logging.log4j.core.config.Configurator;
import org.apache.logging.log4j.core.config.builder.api.AppenderComponentBuilder;
import org.apache.logging.log4j.core.config.builder.api.ConfigurationBuilder;
import org.apache.logging.log4j.core.config.builder.api.ConfigurationBuilderFactory;
import org.apache.logging.log4j.core.config.builder.impl.BuiltConfiguration;

/**
 * Reads a topic of spans and annotations from its beginning to its end, converts each record to a
 * document, and passes the documents to threads that take them in batches and discard them.
 *
 * <p>Usage: Consumer STATE BROKERS TOPIC LOG. The state is one of five successive states in which
 * such a program was profiled and improved. Each state includes the previous improvements:
 *
 * <ol>
 *   <li>logs each document synchronously, with the name of the calling method
 *   <li>logs asynchronously
 *   <li>logs without the method
 *   <li>encodes ids as hexadecimal digits with a table instead of String.format
 *   <li>logs nothing
 * </ol>
 */
public final class Consumer {
  private static final int BATCH = 500;
  private static final int THREADS = 2;
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final char[] DIGITS = "0123456789abcdef".toCharArray();
  private static final List<byte[]> END = List.of();

  private final int state;
  private final Logger log;
  private final BlockingQueue<List<byte[]>> queue = new ArrayBlockingQueue<>(64);
  private final AtomicLong written = new AtomicLong();
  private final AtomicLong bytes = new AtomicLong();

  private Consumer(int state, Logger log) {
    this.state = state;
    this.log = log;
  }

  public static void main(String[] arguments) throws Exception {
    int state = Integer.parseInt(arguments[0]);
    Configurator.initialize(logging(state, arguments[3]));
    Consumer consumer = new Consumer(state, LogManager.getLogger("documents"));
    long begun = System.nanoTime();
    long read = consumer.run(arguments[1], arguments[2]);
    double seconds = (System.nanoTime() - begun) / 1e9;
    System.out.printf("records=%d seconds=%.3f bytes=%d%n", read, seconds, consumer.bytes.get());
    LogManager.shutdown();
  }

  private static BuiltConfiguration logging(int state, String path) {
    ConfigurationBuilder<BuiltConfiguration> builder =
        ConfigurationBuilderFactory.newConfigurationBuilder();
    boolean withMethod = state <= 2;
    String pattern = withMethod ? "%d %-5p %c.%M:%L - %m%n" : "%d %-5p %c - %m%n";
    AppenderComponentBuilder file = builder.newAppender("file", "File").addAttribute("fileName", path);
    builder.add(file.add(builder.newLayout("PatternLayout").addAttribute("pattern", pattern)));
    AppenderComponentBuilder async = builder.newAppender("async", "Async");
    async.addAttribute("includeLocation", withMethod).addAttribute("bufferSize", 16384);
    builder.add(async.addComponent(builder.newComponent("AppenderRef").addAttribute("ref", "file")));
    Level level = state <= 4 ? Level.INFO : Level.ERROR;
    builder.add(builder.newRootLogger(level).add(builder.newAppenderRef(state == 1 ? "file" : "async")));
    return builder.build();
  }

  private long run(String brokers, String topic) throws Exception {
    List<Thread> sinks = new ArrayList<>();
    for (int i = 0; i < THREADS; i++) {
      Thread sink = new Thread(this::write, "sink-" + i);
      sink.start();
      sinks.add(sink);
    }
    long read = consume(brokers, topic);
    for (Thread sink : sinks) {
      queue.put(END);
    }
    for (Thread sink : sinks) {
      sink.join();
    }
    if (written.get() != read) {
      throw new IllegalStateException(written.get() + " of " + read + " documents written");
    }
    return read;
  }

  private long consume(String brokers, String topic) throws Exception {
    Properties options = new Properties();
    options.put("bootstrap.servers", brokers);
    options.put("enable.auto.commit", "false");
    options.put("max.poll.records", "5000");
    options.put("fetch.min.bytes", "65536");
    ByteArrayDeserializer raw = new ByteArrayDeserializer();
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(options, raw, raw)) {
      List<TopicPartition> partitions = new ArrayList<>();
      for (PartitionInfo partition : consumer.partitionsFor(topic)) {
        partitions.add(new TopicPartition(topic, partition.partition()));
      }
      consumer.assign(partitions);
      consumer.seekToBeginning(partitions);
      Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
      long total = ends.values().stream().mapToLong(Long::longValue).sum();
      long read = 0;
      List<byte[]> batch = new ArrayList<>(BATCH);
      while (read < total) {
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
          batch.add(document(record.value()));
          read++;
          if (batch.size() == BATCH) {
            queue.put(batch);
            batch = new ArrayList<>(BATCH);
          }
        }
      }
      if (!batch.isEmpty()) {
        queue.put(batch);
      }
      return read;
    }
  }

  /** Converts a record to a document: encodes ids as hexadecimal digits, and adds a timestamp. */
  private byte[] document(byte[] record) throws Exception {
    ObjectNode entity = (ObjectNode) JSON.readTree(record);
    for (String name : List.of("traceId", "spanId", "parentId")) {
      JsonNode id = entity.get(name);
      if (id != null) {
        entity.put(name, hex(ByteBuffer.allocate(8).putLong(id.longValue()).array()));
      }
    }
    entity.put("@timestamp", Instant.ofEpochMilli(entity.get("timestamp").longValue()).toString());
    log.info("{} {}", entity.get("type").textValue(), entity.get("traceId").textValue());
    return JSON.writeValueAsBytes(entity);
  }

  private String hex(byte[] id) {
    if (state <= 3) {
      StringBuilder digits = new StringBuilder();
      for (byte value : id) {
        digits.append(String.format("%02x", value));
      }
      return digits.toString();
    }
    char[] digits = new char[2 * id.length];
    for (int i = 0; i < id.length; i++) {
      digits[2 * i] = DIGITS[id[i] >> 4 & 15];
      digits[2 * i + 1] = DIGITS[id[i] & 15];
    }
    return new String(digits);
  }

  private void write() {
    try {
      for (List<byte[]> batch = queue.take(); batch != END; batch = queue.take()) {
        for (byte[] document : batch) {
          bytes.addAndGet(document.length);
        }
        written.addAndGet(batch.size());
      }
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
  }
}
