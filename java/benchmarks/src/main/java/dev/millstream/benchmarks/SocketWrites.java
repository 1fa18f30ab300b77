package dev.millstream.benchmarks;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.concurrent.TimeUnit;
import jdk.jfr.FlightRecorder;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/** Measures a loopback socket write in each {@link WriteCase}: time, and allocated bytes with the {@code gc} profiler. */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 100, timeUnit = TimeUnit.MILLISECONDS)
@Measurement(iterations = 10, time = 200, timeUnit = TimeUnit.MILLISECONDS)
@Fork(5)
public class SocketWrites {
    /** The measured case. */
    @Param
    public WriteCase writeCase;

    /** Number of bytes per write. */
    @Param("1")
    public int bytes;

    private Loopback loopback;
    private RecordedWrites recorded;
    private ChannelWriter writer;
    private ByteBuffer buffer;

    /** Connects and starts the recording. */
    @Setup
    public void start() throws IOException {
        loopback = Loopback.open();
        recorded = writeCase.hasRecorder() ? RecordedWrites.start(writeCase) : null;
        writer = writeCase.writer(loopback.channel());
        buffer = ByteBuffer.allocateDirect(bytes);
    }

    /** Checks the recording and prints the number of recorded writes. */
    @TearDown
    public void stop() throws IOException, InterruptedException {
        int port = loopback.port();
        long writes = loopback.close() / bytes;
        long events = 0;
        if (recorded != null) {
            events = recorded.stop(bytes, port);
        } else if (FlightRecorder.isInitialized()) {
            throw new IllegalStateException("the recorder is on");
        }
        System.out.println("# Recorded[case=" + writeCase + ", bytes=" + bytes + ", writes=" + writes + ", events=" + events + "]");
    }

    /** Writes once. */
    @Benchmark
    public int write() throws IOException {
        return writer.write(buffer.clear());
    }
}
