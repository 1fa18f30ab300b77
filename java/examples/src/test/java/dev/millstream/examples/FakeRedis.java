package dev.millstream.examples;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** A server that responds to INFO and SLOWLOG GET in the Redis protocol, and refuses other commands. */
final class FakeRedis implements AutoCloseable {
    private final ServerSocket server;
    private final List<String> slow = new CopyOnWriteArrayList<>();
    private volatile String runId = "one";

    FakeRedis() throws IOException {
        server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        Thread thread = new Thread(this::accept, "fake-redis");
        thread.setDaemon(true);
        thread.start();
    }

    String address() {
        return "127.0.0.1:" + server.getLocalPort();
    }

    /** Adds an entry to the slow log. Responses contain the newest entry first. */
    void addSlow(int id, String key) {
        String client = "127.0.0.1:5000";
        slow.add(0, "*6\r\n:" + id + "\r\n:1700000000\r\n:" + id * 1_000 + "\r\n*2\r\n" + bulk("GET") + bulk(key) + bulk(client) + bulk("c"));
    }

    /** Simulates a server restart, which empties the slow log. */
    void restart(String newRunId) {
        runId = newRunId;
        slow.clear();
    }

    private static String bulk(String text) {
        return "$" + text.length() + "\r\n" + text + "\r\n";
    }

    private void accept() {
        while (!server.isClosed()) {
            try (Socket client = server.accept()) {
                serve(client);
            } catch (IOException ended) {
                // The client or the test has closed its socket.
                continue;
            }
        }
    }

    private void serve(Socket client) throws IOException {
        var in = new BufferedReader(new InputStreamReader(client.getInputStream(), StandardCharsets.UTF_8));
        OutputStream out = client.getOutputStream();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            List<String> words = new ArrayList<>();
            for (int count = Integer.parseInt(line.substring(1)); count > 0; count--) {
                in.readLine();
                words.add(in.readLine());
            }
            out.write(answer(words).getBytes(StandardCharsets.UTF_8));
            out.flush();
        }
    }

    private String answer(List<String> words) {
        if (words.get(0).equals("INFO")) {
            return bulk("# Server\r\nredis_version:7.2.4\r\nrun_id:" + runId + "\r\n\r\n# Memory\r\nused_memory:1048576\r\n"
                    + "mem_fragmentation_ratio:1.25\r\n");
        }
        if (words.get(0).equals("SLOWLOG")) {
            int count = Math.min(Integer.parseInt(words.get(2)), slow.size());
            return "*" + count + "\r\n" + String.join("", slow.subList(0, count));
        }
        return "-ERR unknown command\r\n";
    }

    @Override
    public void close() throws IOException {
        server.close();
    }
}
