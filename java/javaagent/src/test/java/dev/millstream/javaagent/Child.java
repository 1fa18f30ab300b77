package dev.millstream.javaagent;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/** A JVM process that runs {@link Application}, in the same version as the test's JVM. */
final class Child implements AutoCloseable {
    static final Path JAR = Path.of("target/millstream-javaagent.jar").toAbsolutePath();

    /** Generous timeout for busy hosts. */
    private static final long TIMEOUT_S = 90;

    final ConcurrentLinkedQueue<String> errors = new ConcurrentLinkedQueue<>();
    private final Process process;
    private final BufferedReader output;
    private final Thread errorReader;

    private Child(List<String> command) throws IOException {
        process = new ProcessBuilder(command).start();
        output = process.inputReader(StandardCharsets.UTF_8);
        errorReader = new Thread(this::readErrors);
        errorReader.start();
    }

    /** Starts a JVM with arguments and waits until {@code main} runs. */
    static Child start(String... arguments) throws IOException {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        List<String> command = new ArrayList<>(List.of(java, "-XX:TieredStopAtLevel=1", "-XX:+EnableDynamicAgentLoading"));
        // A killed JVM leaves the recorder's repository in this folder.
        Path temporary = Files.createDirectories(Path.of("target/tmp").toAbsolutePath());
        command.add("-Djava.io.tmpdir=" + temporary);
        command.addAll(List.of("-cp", Path.of("target/test-classes").toAbsolutePath().toString()));
        command.addAll(List.of(arguments));
        command.add(Application.class.getName());
        Child child = new Child(command);
        for (String line = child.answer(); !line.equals("main"); line = child.answer()) {
            // Skip the line that the JVM prints when a recording starts.
        }
        return child;
    }

    /** Returns the argument that loads the agent. */
    static String agent(String options) {
        return "-javaagent:" + JAR + "=" + options;
    }

    static String agent(Path socket, String options) {
        return agent("socket=" + socket + options);
    }

    private void readErrors() {
        try (BufferedReader reader = new BufferedReader(new InputStreamReader(process.getErrorStream(), StandardCharsets.UTF_8))) {
            reader.lines().forEach(errors::add);
        } catch (IOException | UncheckedIOException closed) {
            // The process has exited.
        }
    }

    long pid() {
        return process.pid();
    }

    /** Executes a command and returns the response. */
    String execute(String command) throws IOException {
        process.outputWriter(StandardCharsets.UTF_8).append(command).append('\n').flush();
        return answer();
    }

    private String answer() throws IOException {
        String line = output.readLine();
        assertTrue(line != null, () -> "the application has ended: " + errors);
        return line;
    }

    /** Stops the application and returns its exit code. */
    int end() throws IOException, InterruptedException {
        process.outputWriter(StandardCharsets.UTF_8).close();
        assertTrue(process.waitFor(TIMEOUT_S, TimeUnit.SECONDS), "the application does not exit");
        errorReader.join();
        return process.exitValue();
    }

    /** Returns the agent's lines on standard error. */
    List<String> lines() {
        return errors.stream().filter(line -> line.startsWith("millstream-javaagent: ")).toList();
    }

    @Override
    public void close() throws InterruptedException {
        process.destroyForcibly().waitFor();
        errorReader.join();
    }

    static void await(String what, BooleanSupplier condition) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIMEOUT_S);
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() < end, what);
            Thread.sleep(10);
        }
    }
}
