package dev.millstream.examples;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * A service with a slow remote, to practice finding the remote in flight recorder events. Requires only Java 17 or later on Linux. Run in
 * the folder of this file:
 *
 * <pre>{@code
 * java -XX:StartFlightRecording:filename=slow.jfr SlowRemote.java 10
 * jfr print --events jdk.SocketWrite slow.jfr
 * }</pre>
 *
 * <p>With Java 22 or later, a copy of the file must also be in a folder {@code dev/millstream/examples}, which matches the package.
 *
 * <p>Each request sends a document to two remotes, which this program also runs: {@code 127.0.0.2} reads the document immediately,
 * {@code 127.0.0.3} after 300 ms. Because the document exceeds the connection's buffers, the write to the second remote takes that long.
 * The program sends itself a request every 200 ms. It exits after the number of seconds in the argument, or runs until a signal if there is
 * no argument.
 */
public final class SlowRemote {
    private static final String FAST = "127.0.0.2";
    private static final String SLOW = "127.0.0.3";
    private static final long SLOW_MS = 300;
    private static final long PAUSE_MS = 200;

    /** Exceeds the amount that the kernel queues for a connection whose peer does not read. */
    private static final int DOCUMENT_BYTES = 16 << 20;
    private static final byte[] DOCUMENT = new byte[DOCUMENT_BYTES];

    private final URL fast;
    private final URL slow;

    private SlowRemote() throws IOException {
        fast = remote(FAST, 0);
        slow = remote(SLOW, SLOW_MS);
    }

    /**
     * Runs the service.
     *
     * @param args optionally, the number of seconds after which the service exits
     * @throws Exception if the service cannot listen
     */
    public static void main(String[] args) throws Exception {
        SlowRemote service = new SlowRemote();
        HttpServer server = listen("127.0.0.1", service::handle);
        URL own = address(server);
        System.out.println("pid " + ProcessHandle.current().pid() + ", " + own);
        long end = args.length == 0 ? Long.MAX_VALUE : System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.parseLong(args[0]));
        while (System.nanoTime() < end) {
            request(own);
            Thread.sleep(PAUSE_MS);
        }
        System.exit(0);
    }

    /** Handles a request by sending the document to both remotes. */
    private void handle(HttpExchange exchange) throws IOException {
        long start = System.nanoTime();
        sendDocument(fast);
        long middle = System.nanoTime();
        sendDocument(slow);
        long end = System.nanoTime();
        respond(exchange, FAST + " " + milliseconds(middle - start) + ", " + SLOW + " " + milliseconds(end - middle) + "\n");
    }

    private static String milliseconds(long nanos) {
        return nanos / 1_000_000 + " ms";
    }

    /** Sends the document in one blocking write, which lasts until the kernel can queue the part that the remote has not read. */
    private static void sendDocument(URL remote) throws IOException {
        HttpURLConnection connection = (HttpURLConnection) remote.openConnection();
        connection.setRequestMethod("POST");
        connection.setDoOutput(true);
        connection.setFixedLengthStreamingMode(DOCUMENT.length);
        try (OutputStream body = connection.getOutputStream()) {
            body.write(DOCUMENT);
        }
        finish(connection);
    }

    private static void request(URL service) throws IOException {
        finish((HttpURLConnection) service.openConnection());
    }

    private static void finish(HttpURLConnection connection) throws IOException {
        try (InputStream response = connection.getInputStream()) {
            response.readAllBytes();
        }
    }

    /** Starts a remote that reads each request after a delay. */
    private static URL remote(String host, long delayMs) throws IOException {
        return address(listen(host, exchange -> {
            sleep(delayMs);
            exchange.getRequestBody().transferTo(OutputStream.nullOutputStream());
            respond(exchange, "read\n");
        }));
    }

    private static void sleep(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Handles a request and sends the response. */
    private interface Handler {
        void handle(HttpExchange exchange) throws IOException;
    }

    private static HttpServer listen(String host, Handler handler) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress(host, 0), 0);
        server.setExecutor(Executors.newCachedThreadPool(task -> {
            Thread thread = new Thread(task, "http-" + host);
            thread.setDaemon(true);
            return thread;
        }));
        server.createContext("/", handler::handle);
        server.start();
        return server;
    }

    private static URL address(HttpServer server) {
        InetSocketAddress address = server.getAddress();
        try {
            return URI.create("http://" + address.getAddress().getHostAddress() + ":" + address.getPort() + "/").toURL();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static void respond(HttpExchange exchange, String text) throws IOException {
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(200, body.length);
        try (OutputStream out = exchange.getResponseBody()) {
            out.write(body);
        }
    }
}
