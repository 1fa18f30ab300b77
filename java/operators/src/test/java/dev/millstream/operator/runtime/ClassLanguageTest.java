package dev.millstream.operator.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.WeakReference;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ClassLanguageTest {
    private final LocalWorker worker = new LocalWorker();
    private final List<Integer> operators = new ArrayList<>();

    @TempDir
    private Path folder;

    @AfterEach
    void end() {
        operators.forEach(Bridge::remove);
        worker.close();
    }

    private int register(String className, String source, Map<String, Object> options) {
        Path jar = Jars.compile(folder, Map.of(className, source));
        int operator = LocalWorker.register(Jars.spec(jar, className, options));
        operators.add(operator);
        return operator;
    }

    private int register(String className, String source) {
        return register(className, source, Map.of());
    }

    private LocalAnswer apply(int operator, int rows) {
        try (LocalRequest request = new LocalRequest(rows)) {
            for (int row = 0; row < rows; row++) {
                request.set(row, "message", "message " + row);
            }
            return worker.apply(operator, request);
        }
    }

    private static String operator(String name, String body) {
        return "public class " + name + " implements Operator { public void process(Row row) throws Exception { " + body + " } }";
    }

    private String rejection(Path jar, String className) {
        return assertThrows(IllegalArgumentException.class, () -> LocalWorker.register(Jars.spec(jar, className, Map.of()))).getMessage();
    }

    private String rejection(String className, String source) {
        return rejection(Jars.compile(folder, Map.of(className, source)), className);
    }

    @Test
    void anOperatorIsOpenedWithItsContextOncePerWorker() {
        int operator = register("Opened", "public class Opened implements Operator { int opens; Context context; long rows;"
                + " public void open(Context c) { opens++; context = c; }"
                + " public void process(Row row) { row.set(\"state\", opens + context.component() + context.options() + ++rows); } }",
                Map.of("limit", 7));
        assertEquals("1jvm1{limit=7}2", apply(operator, 2).changed().get("state")[1].value());
        assertEquals("1jvm1{limit=7}3", apply(operator, 1).changed().get("state")[0].value());
    }

    @Test
    void aBatchOperatorSeesAllRows() {
        int operator = register("Whole", "public class Whole implements BatchOperator { public void process(Batch batch) {"
                + " int n = 0; for (Row row : batch) { n += row.message().length(); }"
                + " for (int at = 0; at < batch.size(); at++) { batch.row(at).set(\"n\", n); } batch.row(1).drop(); } }");
        LocalAnswer answer = apply(operator, 600);
        assertEquals(10L * 9 + 90 * 10 + 500 * 11, answer.changed().get("n")[599].value());
        assertEquals(List.of(1), answer.dropped());
    }

    @Test
    void anExceptionOfABatchOperatorFailsEveryRow() {
        int operator = register("Fails", "public class Fails implements BatchOperator { public void process(Batch batch) {"
                + " batch.row(0).set(\"n\", 1); batch.row(0).emit(Map.of()); batch.row(1).drop();"
                + " throw new IllegalStateException(\"no\"); } }");
        LocalAnswer answer = apply(operator, 3);
        assertEquals(3, answer.failed().size());
        assertEquals("java.lang.IllegalStateException: no (Fails line 1)", answer.failed().get(2).message());
        assertEquals(Map.of(), answer.changed());
        assertEquals(List.of(), answer.dropped());
        assertEquals(List.of(), answer.emitted());
    }

    @Test
    void callsThatEndTheProcessThrow() {
        String calls = "int n = Integer.parseInt(row.message().substring(8)); java.util.function.IntConsumer exit = System::exit;"
                + " java.util.function.IntConsumer halt = Runtime.getRuntime()::halt;"
                + " if (n == 0) System.exit(1); if (n == 1) Runtime.getRuntime().exit(1); if (n == 2) Runtime.getRuntime().halt(1);"
                + " if (n == 3) exit.accept(1); if (n == 4) halt.accept(1);";
        LocalAnswer answer = apply(register("Exits", operator("Exits", calls)), 5);
        assertEquals(5, answer.failed().size());
        assertTrue(answer.failed().stream()
                .allMatch(each -> each.message().startsWith("java.lang.SecurityException: operators must not exit the process")));
    }

    @Test
    void classesOfTheAgentAreHidden() {
        String body = "for (String name : List.of(\"dev.millstream.operator.runtime.Bridge\", \"groovy.lang.Script\","
                + " \"com.fasterxml.jackson.core.JsonFactory\", \"org.objectweb.asm.ClassReader\")) {"
                + " try { Class.forName(name); row.drop(); } catch (ClassNotFoundException hidden) { row.set(name, true); } }"
                + " row.set(\"sql\", Class.forName(\"java.sql.Timestamp\").getName());";
        LocalAnswer answer = apply(register("Looks", operator("Looks", body)), 1);
        assertEquals(5, answer.changed().size());
        assertEquals(List.of(), answer.dropped());
    }

    @Test
    void faultsOfJarsAreExplained() throws Exception {
        assertEquals("the JVM cannot find or read the jar /no/such.jar; relative paths start at the agent's working directory",
                rejection(Path.of("/no/such.jar"), "Any"));
        Path text = Files.writeString(folder.resolve("text.jar"), "text");
        assertTrue(rejection(text, "Any").startsWith(text + " is not a jar: "));
        Path jar = Jars.compile(folder, Map.of("Fine", operator("Fine", "")));
        assertEquals("class com.acme.Missing is not in " + jar, rejection(jar, "com.acme.Missing"));
    }

    @Test
    void faultsOfClassesAreExplained() {
        assertEquals("class Hidden must be public and not abstract",
                rejection("Hidden", operator("Hidden", "").replace("public class", "class")));
        assertEquals("class Alone has no public constructor without parameters",
                rejection("Alone", operator("Alone", "").replace("{ public", "{ Alone() {} public")));
        assertEquals("class Other implements neither dev.millstream.operator.Operator nor dev.millstream.operator.BatchOperator",
                rejection("Other", "public class Other {}"));
    }

    @Test
    void aMissingClassIsNamed() throws Exception {
        Path jar = Jars.compile(folder, Map.of("Base", "public class Base {}", "Derived",
                "public class Derived extends Base implements Operator { public void process(Row row) {} }"));
        try (var files = java.nio.file.FileSystems.newFileSystem(jar)) {
            Files.delete(files.getPath("Base.class"));
        }
        assertEquals("class Derived needs class Base, which is not in " + jar, rejection(jar, "Derived"));
    }

    @Test
    void aClassForANewerJavaNamesBothVersions() throws Exception {
        Path jar = Jars.compile(folder, Map.of("Newer", operator("Newer", "")));
        try (var files = java.nio.file.FileSystems.newFileSystem(jar)) {
            Path file = files.getPath("Newer.class");
            byte[] bytes = Files.readAllBytes(file);
            bytes[7] = 44 + 80;
            Files.write(file, bytes);
        }
        assertEquals("class Newer needs Java 80, but Java " + Runtime.version().feature() + " runs", rejection(jar, "Newer"));
    }

    @Test
    void aFailureToOpenFailsTheRows() {
        int operator = register("Opens", "public class Opens implements Operator { static int opens;"
                + " public void open(Context context) { if (opens++ == 0) throw new IllegalStateException(\"closed\"); }"
                + " public void process(Row row) {} }");
        LocalAnswer answer = apply(operator, 2);
        assertEquals(2, answer.failed().size());
        assertEquals("open: java.lang.IllegalStateException: closed (Opens line 1)", answer.failed().get(1).message());
        assertEquals(2, apply(operator, 2).failed().size(), "not yet tried again");
    }

    @Test
    void aRemovedOperatorIsClosed() {
        String name = "closed" + System.nanoTime();
        int operator = register("Closes", "public class Closes implements Operator { public void process(Row row) {}"
                + " public void close() { System.setProperty(\"" + name + "\", Thread.currentThread().getName());"
                + " throw new IllegalStateException(); } }");
        apply(operator, 1);
        Bridge.remove(operator);
        assertEquals(Thread.currentThread().getName(), System.clearProperty(name));
        assertEquals("unknown operator", assertThrows(IllegalStateException.class, () -> apply(operator, 1)).getMessage());
    }

    @Test
    void anOperatorThatRunsIsClosedAfterItsCall() {
        String name = "running" + System.nanoTime();
        int operator = register("Runs", "public class Runs implements Operator { String seen = \"\";"
                + " public void process(Row row) { Runnable remove = (Runnable) System.getProperties().remove(\"" + name + "\");"
                + " if (remove != null) remove.run(); seen += row.message() + System.getProperty(\"" + name + "\") + \";\"; }"
                + " public void close() { System.setProperty(\"" + name + "\", seen); } }");
        System.getProperties().put(name, (Runnable) () -> Bridge.remove(operator));
        apply(operator, 2);
        assertEquals("message 0null;message 1null;", System.clearProperty(name));
    }

    @Test
    void classesOfARemovedOperatorAreCollected() throws Exception {
        Path jar = Jars.compile(folder, Map.of("Gone", operator("Gone", "row.set(\"a\", row.message()); row.set(\"b\", List.of(1));")));
        int operator = LocalWorker.register(Jars.spec(jar, "Gone", Map.of()));
        apply(operator, 300);
        WeakReference<ClassLoader> loader = new WeakReference<>(Bridge.operator(operator).loader());
        Bridge.remove(operator);
        for (int attempt = 0; attempt < 100 && loader.get() != null; attempt++) {
            System.gc();
            Thread.sleep(10);
        }
        assertNull(loader.get());
    }

    @Test
    void theJarOfARemovedOperatorIsClosed() throws Exception {
        Path jar = Jars.compile(folder, Map.of("Closes", operator("Closes", "")));
        int operator = LocalWorker.register(Jars.spec(jar, "Closes", Map.of()));
        apply(operator, 1);
        assertTrue(openFiles().contains(jar.toRealPath()));
        Bridge.remove(operator);
        assertFalse(openFiles().contains(jar.toRealPath()));
    }

    private static List<Path> openFiles() throws java.io.IOException {
        List<Path> open = new ArrayList<>();
        try (var links = Files.list(Path.of("/proc/self/fd"))) {
            for (Path link : links.toList()) {
                try {
                    open.add(Files.readSymbolicLink(link));
                } catch (java.nio.file.NoSuchFileException closed) {
                    // Another thread has closed the file, or the file is the directory listing itself.
                    continue;
                }
            }
        }
        return open;
    }

    @Test
    void statsCountRowsAndFailures() {
        int operator = register("Counts", operator("Counts", "if (row.message().endsWith(\"7\")) throw new Exception();"));
        apply(operator, 300);
        String stats = new String(Bridge.stats(operator), StandardCharsets.UTF_8);
        assertTrue(stats.startsWith("{\"rules\":[{\"name\":\"Counts\",\"rows\":300,\"failures\":30,\"ns\":"), stats);
    }
}
