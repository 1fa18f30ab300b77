package dev.millstream.operator.groovy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.millstream.collector.Collector;
import dev.millstream.collector.CollectorContext;
import dev.millstream.operator.runtime.CollectorSpec;
import dev.millstream.operator.runtime.CompileException;
import dev.millstream.operator.runtime.CompiledCollector;
import dev.millstream.operator.runtime.LocalCollector;
import dev.millstream.operator.runtime.LocalEvents.LocalEvent;
import dev.millstream.operator.runtime.OperatorSpec;
import dev.millstream.operator.runtime.RuleSource;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class GroovyCollectorTest {
    /** A statement that the type checker cannot handle, so that the script is compiled without types. */
    private static final String WITHOUT_TYPES = "'x'.eachMatch(/x/) { };";

    private static LocalCollector collector(String script) {
        OperatorSpec code = new OperatorSpec("source", "groovy", List.of(new RuleSource("script", script)), null, null,
                Map.of("host", "db", "ports", List.of(1L, 2L)), Map.of(), null, 0, List.of(), List.of());
        return LocalCollector.of(new CollectorSpec(code, List.of(), 0, 0, 1));
    }

    private static List<LocalEvent> events(String script) {
        try (LocalCollector collector = collector(script)) {
            return collector.call(1_000);
        }
    }

    private static String refusal(String script) {
        return assertThrows(IllegalArgumentException.class, () -> collector(script), script).getMessage();
    }

    @Test
    void variablesAreThoseOfTheCollector() {
        String script = "options.ports.each { port -> events.add(\"$options.host:$port\", [port: port, at: context.component()]) }\n"
                + "events.flush()\nstate.n = (state.n ?: 0) + 1\nevents.add('n', [n: state.n, timestamp: Instant.EPOCH])";
        for (String prefix : List.of("", WITHOUT_TYPES)) {
            List<LocalEvent> events = events("import java.time.Instant\n" + prefix + script);
            assertEquals(List.of(
                    new LocalEvent("db:1", Map.of("port", 1L, "at", "source"), null),
                    new LocalEvent("db:2", Map.of("port", 2L, "at", "source"), null),
                    new LocalEvent("n", Map.of("n", 1L), Instant.EPOCH)), events);
        }
    }

    @Test
    void stateIsKeptOverCalls() {
        try (LocalCollector collector = collector("state.n = (state.n ?: 0) + 1\nevents.add(\"$state.n\")")) {
            List<String> messages = new ArrayList<>();
            for (int call = 0; call < 3; call++) {
                messages.add(collector.call(1_000).get(0).message());
            }
            assertEquals(List.of("1", "2", "3"), messages);
        }
    }

    @Test
    void functionsAndVariablesOfAScriptHaveTheSameMeaning() {
        String script = "def report(String name) { events.add(name, [host: options.host]) }\n"
                + "report('a')\ndef events2 = events\nevents2.add('b')\ndef state = [x: 1]\nevents.add('c', state)";
        assertEquals(List.of("a", "b", "c"), events(script).stream().map(LocalEvent::message).toList());
        assertEquals(Map.of("x", 1L), events(script).get(2).fields());
    }

    /** The collector's configuration and state. */
    private record Place(String component, Map<String, Object> options, Map<String, Object> state) implements CollectorContext {}

    @Test
    void aScriptClosesWhatItKeeps() throws Exception {
        String source = "state.n = 7\n\nvoid close() { (options.log as List).add(state.n) }";
        OperatorSpec code = new OperatorSpec("source", "groovy", List.of(), null, null, Map.of(), Map.of(), null, 0, List.of(), List.of());
        CollectorSpec spec = new CollectorSpec(code, List.of(), 0, 0, 1);
        CompiledCollector script = new GroovyLanguage().compileCollector(new RuleSource("script", source), spec, null);
        List<Object> log = new ArrayList<>();
        try (Collector collector = script.type().getConstructor().newInstance()) {
            collector.open(new Place("source", Map.of("log", log), new HashMap<>()));
            collector.collect(null);
            assertEquals(List.of(), log);
        }
        assertEquals(List.of(7), log);
        assertTrue(refusal("def close() { }\n1").startsWith("script line 1: "));
    }

    @Test
    void whatARuleMustNotUseACollectorMustNotEither() throws CompileException {
        List<String> accepted = new ArrayList<>();
        for (String attack : Attacks.ALL.split("\n---\n")) {
            try {
                collector(attack);
                accepted.add(attack);
            } catch (IllegalArgumentException expected) {
                assertTrue(expected.getMessage().indexOf('\n') < 0, attack);
            }
        }
        assertEquals(List.of(), accepted);
    }

    @Test
    void theCollectorItselfIsOutOfReach() {
        for (String script : List.of("collect(null)", "open(null)", "this.collect(events)", "currentState()", "close()",
                "this.metaClass", "events.class", "context.getClass()", "void collect(dev.millstream.collector.Events e) {}\n1",
                "void open(dev.millstream.collector.CollectorContext c) {}\n1", "row.x = 1",
                "drop()", "emit([:])", "between('a', 0, 'b')")) {
            for (String prefix : List.of("", WITHOUT_TYPES)) {
                refusal(prefix + script);
            }
        }
    }

    @Test
    void anErrorNamesItsLine() {
        assertEquals("script line 2: variable unknown is not declared; declare it with def unknown", refusal("def x = 1\nx = unknown"));
        try (LocalCollector collector = collector("def x = 1\n\nthrow new IllegalStateException('no')")) {
            assertEquals("java.lang.IllegalStateException: no (script line 3)",
                    assertThrows(IllegalStateException.class, () -> collector.call(1_000)).getMessage());
        }
        try (LocalCollector collector = collector("events.add('x',\n [a: 1,\n b: new Object()])")) {
            String message = assertThrows(IllegalStateException.class, () -> collector.call(1_000)).getMessage();
            String expected = "java.lang.IllegalArgumentException: a field cannot contain a value of type java.lang.Object (script line ";
            assertTrue(message.startsWith(expected), message);
        }
    }

    @Test
    void anEndlessScriptIsEndedByAnInterrupt() throws InterruptedException {
        for (String script : List.of("while (true) { }", "while (true) { try { events.add('x') } catch (Exception e) { } }")) {
            List<Throwable> ends = new ArrayList<>();
            LocalCollector collector = collector(script);
            Thread thread = new Thread(() -> {
                try (collector) {
                    collector.call(Long.MAX_VALUE);
                } catch (IllegalStateException error) {
                    ends.add(error.getCause());
                }
            });
            thread.start();
            while (thread.isAlive()) {
                thread.interrupt();
                thread.join(10);
            }
            assertEquals(RuleInterrupted.class, ends.get(0).getClass(), script);
        }
    }

    @Test
    void aCallStopsAfterItsEvents() {
        try (LocalCollector collector = collector("int n = 0\nwhile (true) { events.add(\"${n++}\") }")) {
            assertEquals(List.of("0", "1", "2"), collector.call(3).stream().map(LocalEvent::message).toList());
        }
    }
}
