package dev.millstream.operator.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.millstream.operator.runtime.LocalEvents.LocalEvent;
import java.lang.ref.WeakReference;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests collectors as the agent registers them: from JSON, with jars. */
class CollectorLoaderTest {
    @TempDir
    private Path folder;

    private static CollectorSpec spec(String language, String script, Path jar, String className, List<Path> jars, String... allow) {
        List<RuleSource> rules = script == null ? List.of() : List.of(new RuleSource("redis.groovy", script));
        OperatorSpec code = new OperatorSpec("source", language, rules, jar == null ? null : jar.toString(), className,
                Map.of("n", 2L), Map.of(), null, 0, List.of(allow), List.of("println"));
        return new CollectorSpec(code, jars.stream().map(Path::toString).toList(), 1_000, 0, 3);
    }

    private static CollectorSpec ofClass(Path jar, String className, Path... jars) {
        return spec("class", null, jar, className, List.of(jars));
    }

    private Path jar(String className, String source) {
        return Jars.compile(folder, Map.of(className, source));
    }

    private static String collector(String name, String body) {
        return "public class " + name + " implements Collector { public void collect(Events events) throws Exception { " + body + " } }";
    }

    private static Map<?, ?> register(CollectorSpec spec) {
        byte[] answer = Bridge.collectorRegister(Specs.json(spec));
        return (Map<?, ?>) Json.parse(answer, answer.length);
    }

    private static Map<?, ?> error(CollectorSpec spec) {
        return (Map<?, ?>) register(spec).get("error");
    }

    private static String message(CollectorSpec spec) {
        return String.valueOf(error(spec).get("message"));
    }

    @Test
    void aCollectorIsRegisteredAndListed() {
        String source = collector("Fine", "events.add(\"a\");");
        int id = ((Long) register(ofClass(jar("Fine", source), "Fine")).get("id")).intValue();
        String stats = new String(Bridge.collectorStats(), StandardCharsets.UTF_8);
        String expected = "{\"id\":" + id + ",\"component\":\"source\",\"calls\":0,\"failures\":0,\"events\":0,\"missed\":0,"
                + "\"running_ms\":-1,\"state\":\"waiting\",\"last_failure\":null}";
        assertTrue(stats.contains(expected), stats);
        assertTrue(stats.startsWith("{\"threads_max\":3,\"threads\":"), stats);
        Bridge.collectorStop(id);
        Bridge.collectorStop(id);
        assertFalse(new String(Bridge.collectorStats(), StandardCharsets.UTF_8).contains("\"id\":" + id + ","));
        Bridge.collectorStop(-1);
        Bridge.collectorStart(id, 1);
    }

    @Test
    void anErrorOfAScriptHasItsPlace() {
        Map<?, ?> refused = error(spec("groovy", "events.add('a')\nString s = new File('x').text", null, null, List.of()));
        assertEquals("class java.io.File is not allowed in a script (to allow a class, set `allow: [java.io.File]`)",
                refused.get("message"));
        assertEquals(List.of("redis.groovy", 2L, 12L), List.of(refused.get("rule"), refused.get("line"), refused.get("column")));
        assertEquals("unable to resolve class com.acme.Client; add its jar to `jars`, and the class to `allow`",
                message(spec("groovy", "new com.acme.Client()", null, null, List.of())));
        Map<?, ?> syntax = error(spec("groovy", "if (", null, null, List.of()));
        assertEquals(1L, syntax.get("line"));
        Map<?, ?> unknown = error(spec("groovy", "\n\nrow.x = 1", null, null, List.of()));
        assertEquals("variable row is not declared; declare it with def row", unknown.get("message"));
        assertEquals(3L, unknown.get("line"));
    }

    @Test
    void faultsOfTheConfigurationAreExplained() {
        assertEquals("a collector does not support the language 'aviator'; use groovy or class",
                message(spec("aviator", "1", null, null, List.of())));
        assertEquals("a collector must have exactly one script, not 0", message(spec("groovy", null, null, null, List.of())));
        assertEquals("a collector with `language: class` needs a jar and a class", message(spec("class", null, null, "A", List.of())));
        assertEquals("the JVM cannot find or read the jar /no/such.jar; relative paths start at the agent's working directory",
                message(spec("groovy", "1", null, null, List.of(Path.of("/no/such.jar")))));
        assertEquals("class Other does not implement dev.millstream.collector.Collector",
                message(ofClass(jar("Other", "public class Other {}"), "Other")));
        byte[] garbage = Bridge.collectorRegister(new byte[] {'{'});
        assertTrue(new String(garbage, StandardCharsets.UTF_8).startsWith("{\"error\":{\"message\":"));
    }

    @Test
    void aConstructorThatFailsIsAnError() {
        String throwing = "public class Fails implements Collector { public Fails() { throw new IllegalStateException(\"no\"); }"
                + " public void collect(Events events) {} }";
        Map<?, ?> error = error(ofClass(jar("Fails", throwing), "Fails"));
        assertEquals("the constructor of Fails failed: java.lang.IllegalStateException: no", error.get("message"));
        assertEquals(1L, error.get("line"));
    }

    @Test
    void aConstructorThatDoesNotReturnIsAnError() {
        String endless = "public class Waits implements Collector { public Waits() throws Exception { Thread.sleep(Long.MAX_VALUE); }"
                + " public void collect(Events events) {} }";
        assertEquals("the constructor of Waits did not return within 10 s; connect in open or collect instead",
                message(ofClass(jar("Waits", endless), "Waits")));
    }

    @Test
    void aClassUsesFurtherJarsAndCannotEndTheProcess() {
        Path library = jar("Library", "public class Library { public static String name() { return \"library\"; } }");
        Path classes = Jars.compile(folder, Map.of("Uses", collector("Uses",
                "events.add(Library.name()); try { System.exit(1); } catch (SecurityException e) { events.add(e.getMessage()); }"),
                "Library", "public class Library { public static String name() { return \"none\"; } }"));
        remove(classes, "Library.class");
        try (LocalCollector collector = LocalCollector.of(ofClass(classes, "Uses", library))) {
            assertEquals(List.of("library", "operators must not exit the process"), messages(collector));
        }
        assertTrue(message(ofClass(jar("Fine", collector("Fine", "")), "Missing")).startsWith("class Missing is not in "));
    }

    @Test
    void aMissingJarIsNamedWhenTheClassIsLoadedAndWhenItIsCalled() {
        Map<String, String> sources = Map.of("Base", "public class Base {}", "Needs",
                "public class Needs implements Collector { private final Base base = new Base(); public void collect(Events events) {} }",
                "Calls", collector("Calls", "new Base();"));
        Path jar = Jars.compile(folder, sources);
        remove(jar, "Base.class");
        assertEquals("Needs needs class Base, which is in none of its jars; add the jar that contains this class to `jars`",
                message(ofClass(jar, "Needs")));
        try (LocalCollector collector = LocalCollector.of(ofClass(jar, "Calls"))) {
            String failure = assertThrows(IllegalStateException.class, () -> messages(collector)).getMessage();
            assertEquals("java.lang.NoClassDefFoundError: Base; add the jar that contains this class to `jars` (Calls line 1)", failure);
        }
    }

    private static void remove(Path jar, String entry) {
        try (var files = java.nio.file.FileSystems.newFileSystem(jar)) {
            Files.delete(files.getPath(entry));
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    private static List<String> messages(LocalCollector collector) {
        return collector.call(Long.MAX_VALUE).stream().map(LocalEvent::message).toList();
    }

    @Test
    void resourcesOfAllJarsAreFound() throws Exception {
        Path one = jar("One", "public class One {}");
        Path two = jar("Two", "public class Two {}");
        for (Path jar : List.of(one, two)) {
            try (var files = java.nio.file.FileSystems.newFileSystem(jar)) {
                Files.writeString(files.getPath("name"), jar.getFileName().toString());
            }
        }
        String body = "var loader = Thread.currentThread().getContextClassLoader(); var all = loader.getResources(\"name\");"
                + " while (all.hasMoreElements()) { try (var in = all.nextElement().openStream()) {"
                + " events.add(new String(in.readAllBytes())); } }"
                + " try (var in = loader.getResourceAsStream(\"name\")) { events.add(new String(in.readAllBytes())); }";
        try (LocalCollector collector = LocalCollector.of(ofClass(jar("Finds", collector("Finds", body)), "Finds", one, two))) {
            String first = one.getFileName().toString();
            assertEquals(List.of(first, two.getFileName().toString(), first), messages(collector));
        }
    }

    @Test
    void aScriptUsesTheClassesOfItsJars() {
        String source = "public class Client { public int twice(int n) { return 2 * n; }"
                + " public List<Client> all() { return List.of(this); } }";
        Path library = jar("Client", source);
        String script = "def client = (Client) state.computeIfAbsent('client') { new Client() }\n"
                + "client.all().each { events.add('n', [n: it.twice(options.n as int)]) }";
        try (LocalCollector collector = LocalCollector.of(spec("groovy", script, null, null, List.of(library), "Client"))) {
            for (int call = 0; call < 2; call++) {
                assertEquals(List.of(new LocalEvent("n", Map.of("n", 4L), null)), collector.call(Long.MAX_VALUE));
            }
        }
        assertTrue(message(spec("groovy", script, null, null, List.of(library))).startsWith("class Client is not allowed in a script"));
    }

    @Test
    void aClassThatTheJarsOfAScriptLackIsNamed() {
        Path library = Jars.compile(folder, Map.of("Base", "public class Base {}", "Derived", "public class Derived extends Base {}"));
        remove(library, "Base.class");
        Map<?, ?> error = error(spec("groovy", "new Derived()", null, null, List.of(library), "Derived"));
        assertTrue(String.valueOf(error.get("message")).startsWith("the collector cannot be loaded: "), error.toString());
        assertTrue(String.valueOf(error.get("message")).contains("Base"), error.toString());
        assertEquals("redis.groovy", error.get("rule"));
    }

    @Test
    void classesOfAStoppedCollectorAreCollected() throws Exception {
        Path library = jar("Client", "public class Client { public int twice(int n) { return 2 * n; } }");
        String script = "events.add('n', [n: new Client().twice(3)])";
        LocalCollector collector = LocalCollector.of(spec("groovy", script, null, null, List.of(library), "Client"));
        assertEquals(1, collector.call(Long.MAX_VALUE).size());
        WeakReference<ClassLoader> loader = new WeakReference<>(collector.loader());
        collector.close();
        collector = null;
        for (int attempt = 0; attempt < 500 && loader.get() != null; attempt++) {
            System.gc();
            Thread.sleep(10);
        }
        assertNull(loader.get());
    }
}
