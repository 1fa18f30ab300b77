package dev.millstream.benchmarks;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.lang.management.ManagementFactory;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.URL;
import java.util.concurrent.Executors;

/**
 * A small service on the JDK's HTTP server, with a client that sends requests as fast as it can. Prints requests per CPU second of the
 * process, requests per second, and the heap bytes in use after a garbage collection.
 */
public final class RequestLoad {
    private static final long NANOS = 1_000_000_000;
    private static final byte[] BODY = new byte[1000];

    private RequestLoad() {}

    /** Warms up for the number of seconds in the first argument, then measures for the number of seconds in the second. */
    public static void main(String[] arguments) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", RequestLoad::respond);
        server.setExecutor(Executors.newFixedThreadPool(2, RequestLoad::daemon));
        server.start();
        URL url = URI.create("http://127.0.0.1:" + server.getAddress().getPort() + "/").toURL();
        request(url, Long.parseLong(arguments[0]));
        long cpu = cpuNanos();
        long start = System.nanoTime();
        long requests = request(url, Long.parseLong(arguments[1]));
        double wallSeconds = (System.nanoTime() - start) / (double) NANOS;
        double cpuSeconds = (cpuNanos() - cpu) / (double) NANOS;
        System.gc();
        long heap = ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
        System.out.println(requests / cpuSeconds + " " + requests / wallSeconds + " " + heap);
        System.exit(0);
    }

    private static Thread daemon(Runnable task) {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    }

    private static void respond(HttpExchange exchange) throws IOException {
        exchange.sendResponseHeaders(200, BODY.length);
        exchange.getResponseBody().write(BODY);
        exchange.close();
    }

    private static long request(URL url, long seconds) throws IOException {
        long end = System.nanoTime() + seconds * NANOS;
        long requests = 0;
        while (System.nanoTime() < end) {
            try (InputStream response = ((HttpURLConnection) url.openConnection()).getInputStream()) {
                response.readAllBytes();
            }
            requests++;
        }
        return requests;
    }

    private static long cpuNanos() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }
}
