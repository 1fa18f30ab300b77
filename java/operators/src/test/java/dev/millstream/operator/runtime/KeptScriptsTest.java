package dev.millstream.operator.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.millstream.operator.runtime.LocalEvents.LocalEvent;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests scripts that one process compiles and another process registers. The scripts are passed as JSON, as the agent does. */
class KeptScriptsTest {
    private static final String RULE = "row.x = row.n + 1\nrow.y = \"${row.x}\".toString()\nthrow new IllegalStateException('no')";
    private static final String COLLECTOR = "events.add('n', [n: new Client().twice(3)])\nif (state.n) {\n  throw new Exception('no')\n}\n"
            + "state.n = 1";
    private static final String LIBRARY = "public class Client { public int twice(int n) { return 2 * n; } }";
    /**
     * Classes whose initialization indicates a compilation: parts of Groovy's compiler and of this runtime. Groovy's runtime uses other
     * parts, such as the table of imports, but does not fill the table.
     */
    private static final Pattern COMPILER = Pattern.compile("Initializing '(org/codehaus/groovy/(control/(CompilationUnit|SourceUnit)"
            + "|classgen/|transform/|vmplugin/v9/ClassFinder\\$)|org/apache/groovy/parser/|dev/millstream/operator/groovy/(ScriptCompiler|CompileLoader|AllowList))");

    @TempDir
    private Path folder;

    private static OperatorSpec operator(String language, List<RuleSource> rules, boolean keeps) {
        return new OperatorSpec("c", language, rules, null, null, Map.of(), Map.of(), null, 0, List.of("Client"), List.of(), keeps);
    }

    private static CollectorSpec collector(String compiled, Path jar) {
        List<RuleSource> rules = List.of(new RuleSource("redis.groovy", COLLECTOR, compiled));
        return new CollectorSpec(operator("groovy", rules, true), List.of(jar.toString()), 1_000, 0, 1);
    }

    private static Map<?, ?> json(byte[] answer) {
        return (Map<?, ?>) Json.parse(answer, answer.length);
    }

    private static Map<?, ?> register(String language, List<RuleSource> rules, boolean keeps) {
        return json(Bridge.register(Specs.json(operator(language, rules, keeps))));
    }

    private static Map<?, ?> register(CollectorSpec spec) {
        Map<?, ?> answer = json(Bridge.collectorRegister(Specs.json(spec)));
        Bridge.collectorStop(((Long) answer.get("id")).intValue());
        return answer;
    }

    private static List<RuleSource> rules(Object first, Object second) {
        return List.of(new RuleSource("a", RULE, (String) first), new RuleSource("b", "row.z = 1", (String) second));
    }

    /** Returns the fields that a rule sets, and the rule's failure. */
    private static String run(Map<?, ?> answer) {
        try (LocalWorker worker = new LocalWorker(); LocalRequest request = new LocalRequest(1).set(0, "n", 2L).segment(0, 1, Map.of())) {
            int id = ((Long) answer.get("id")).intValue();
            LocalAnswer result = worker.apply(id, request);
            LocalWorker.remove(id);
            return result.changed().keySet() + " " + result.failed().get(0).message();
        }
    }

    @Test
    void anOperatorIsRegisteredFromWhatItsAnswerContained() {
        Map<?, ?> first = register("groovy", rules(null, null), true);
        List<?> compiled = (List<?>) first.get("compiled");
        assertEquals(2, compiled.size());
        Map<?, ?> again = register("groovy", rules(compiled.get(0), compiled.get(1)), true);
        assertEquals(List.of("id", "fields", "removed_calls", "dynamic_calls", "compiled"), List.copyOf(again.keySet()));
        for (String member : List.of("fields", "removed_calls", "dynamic_calls", "compiled")) {
            assertEquals(first.get(member), again.get(member), member);
        }
        String failed = run(first);
        assertTrue(failed.endsWith("java.lang.IllegalStateException: no (a line 3)"), failed);
        assertEquals(failed, run(again));
        Map<?, ?> mixed = register("groovy", rules("garbage", compiled.get(1)), true);
        assertEquals(compiled.get(1), ((List<?>) mixed.get("compiled")).get(1));
        assertEquals(failed, run(mixed));
    }

    @Test
    void theAnswerHasNoCompiledScriptsUnlessTheyAreToBeKept() {
        List<?> compiled = (List<?>) register("groovy", rules(null, null), true).get("compiled");
        assertFalse(register("groovy", rules(compiled.get(0), compiled.get(1)), false).containsKey("compiled"));
        assertFalse(register("aviator", List.of(new RuleSource("a", "1 + n", "garbage")), true).containsKey("compiled"));
        byte[] spec = "{\"language\":\"groovy\",\"rules\":[{\"text\":\"row.x = 1\",\"compiled\":7}],\"keep_compiled\":null}".getBytes(
                StandardCharsets.UTF_8);
        assertEquals(List.of("id", "fields", "removed_calls", "dynamic_calls"), List.copyOf(json(Bridge.register(spec)).keySet()));
    }

    @Test
    void aRegisteredOperatorDoesNotHoldItsCompiledScripts() {
        Map<?, ?> answer = register("groovy", rules(null, null), true);
        for (CompiledRule rule : Bridge.operator(((Long) answer.get("id")).intValue()).rules()) {
            assertEquals(null, rule.takeCompiled());
        }
    }

    @Test
    void aCollectorWithJarsIsRegisteredFromWhatItsAnswerContained() throws IOException {
        Path library = Jars.compile(folder, Map.of("Client", LIBRARY));
        Map<?, ?> first = register(collector(null, library));
        assertEquals(List.of("id", "compiled"), List.copyOf(first.keySet()));
        String compiled = (String) ((List<?>) first.get("compiled")).get(0);
        assertEquals(List.of(compiled), register(collector(compiled, library)).get("compiled"));
        for (String input : List.of(compiled, "garbage")) {
            try (LocalCollector collector = LocalCollector.of(collector(input, library))) {
                assertEquals(List.of(new LocalEvent("n", Map.of("n", 6L), null)), collector.call(10));
                String message = assertThrows(IllegalStateException.class, () -> collector.call(10)).getMessage();
                assertEquals("java.lang.Exception: no (redis.groovy line 3)", message);
            }
        }
    }

    @Test
    void aCollectorWhoseJarWasReplacedIsCompiledAnew() throws IOException {
        Path library = Jars.compile(folder, Map.of("Client", LIBRARY));
        List<?> compiled = (List<?>) register(collector(null, library)).get("compiled");
        Path other = Jars.compile(folder, Map.of("Client", LIBRARY.replace("int twice(int n)", "long twice(long n)")));
        Files.move(other, library, java.nio.file.StandardCopyOption.REPLACE_EXISTING);
        CollectorSpec spec = collector((String) compiled.get(0), library);
        assertNotEquals(compiled, register(spec).get("compiled"));
        try (LocalCollector collector = LocalCollector.of(spec)) {
            assertEquals(Map.of("n", 6L), collector.call(10).get(0).fields());
        }
    }

    @Test
    void theCompilerIsNotUsed() throws Exception {
        Path library = Jars.compile(folder, Map.of("Client", LIBRARY));
        List<?> rule = (List<?>) register("groovy", rules(null, null), true).get("compiled");
        List<?> script = (List<?>) register(collector(null, library)).get("compiled");
        Path operator = folder.resolve("operator.json");
        Path collector = folder.resolve("collector.json");
        Files.write(operator, Specs.json(operator("groovy", rules(rule.get(0), rule.get(1)), true)));
        Files.write(collector, Specs.json(collector((String) script.get(0), library)));
        List<String> lines = child(operator, collector);
        assertTrue(lines.contains("registered [[id, fields, removed_calls, dynamic_calls, compiled], [id, compiled]]"), lines.toString());
        assertTrue(lines.stream().anyMatch(line -> line.contains("Initializing 'rule_a'")), "classes are logged");
        assertEquals(List.of(), compiling(lines));
        Files.write(operator, Specs.json(operator("groovy", rules(rule.get(0), "garbage"), true)));
        assertNotEquals(List.of(), compiling(child(operator, collector)));
    }

    private static List<String> compiling(List<String> lines) {
        return lines.stream().filter(line -> COMPILER.matcher(line).find()).toList();
    }

    /** Registers both scripts in another process. Returns the classes that the process initializes, and its output. */
    private List<String> child(Path operator, Path collector) throws Exception {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-XX:TieredStopAtLevel=1", "-Xlog:class+init=info",
                "-cp", System.getProperty("java.class.path"), Child.class.getName(), operator.toString(), collector.toString()));
        Path output = folder.resolve("output");
        Process process = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(output.toFile()).start();
        int exit = process.waitFor();
        List<String> lines = Files.readAllLines(output);
        assertEquals(0, exit, () -> String.join("\n", lines));
        return lines;
    }

    /** Registers an operator and a collector, and runs the operator. */
    static final class Child {
        private Child() {}

        public static void main(String[] files) throws IOException {
            byte[] operator = Files.readAllBytes(Path.of(files[0]));
            byte[] collector = Files.readAllBytes(Path.of(files[1]));
            Map<?, ?> registered = json(Bridge.register(operator));
            System.out.println("registered " + List.of(registered.keySet(), json(Bridge.collectorRegister(collector)).keySet()));
            run(registered);
        }
    }
}
