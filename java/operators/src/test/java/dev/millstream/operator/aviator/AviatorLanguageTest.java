package dev.millstream.operator.aviator;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.millstream.operator.groovy.MapRow;
import dev.millstream.operator.runtime.CompileException;
import dev.millstream.operator.runtime.CompiledRule;
import dev.millstream.operator.runtime.OperatorSpec;
import dev.millstream.operator.runtime.Rule;
import dev.millstream.operator.runtime.RuleSource;
import java.lang.ref.WeakReference;
import java.math.BigDecimal;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class AviatorLanguageTest {
    private static OperatorSpec spec(String output, long timeoutMs, String... removed) {
        return new OperatorSpec(
                "test", "aviator", List.of(), null, null, Map.of(), Map.of(), output, timeoutMs, List.of(), List.of(removed));
    }

    private static CompiledRule compile(String text, OperatorSpec spec) throws CompileException {
        return new AviatorLanguage().compile(new RuleSource("script", text), spec);
    }

    private static MapRow row() {
        return new MapRow("message", "a,b;c", "level", "warn", "service", "api", "status", 404L, "ratio", 0.5, "ok", true, "n", 7L, "user",
                Map.of("name", "bob", "tags", List.of("x", "y")), "items", List.of(1L, 2L, 3L), "a.b", "dotted");
    }

    private static Object value(String expression) throws Throwable {
        MapRow row = row();
        compile(expression, spec("out", 0)).instance().process(row);
        assertTrue(row.fields.containsKey("out"), expression);
        return row.fields.get("out");
    }

    private static MapRow run(String expression) throws Throwable {
        MapRow row = row();
        compile(expression, spec(null, 0)).instance().process(row);
        return row;
    }

    @Test
    void theValueBecomesTheOutputField() throws Throwable {
        Object[][] cases = {
            {"status + 1", 405L}, {"status / 2", 202L}, {"ratio * 2", 1.0}, {"1.5M", new BigDecimal("1.5")}, {"level", "warn"},
            {"level + '-' + service", "warn-api"}, {"\"#{level}!\"", "warn!"}, {"missing", null}, {"user.name", "bob"},
            {"user.tags[1]", "y"}, {"user.missing", null}, {"user.missing.deeper", null}, {"a.b", "dotted"}, {"items", List.of(1L, 2L, 3L)},
            {"count(items)", 3L}, {"reduce(items, +, 0)", 6L}, {"status >= 400 ? 'bad' : 'good'", "bad"}, {"string.length(message)", 5L},
            {"string.upper(level)", "WARN"}, {"string.lower('A')", "a"}, {"string.trim(' a ')", "a"}, {"string.upper(missing)", null},
            {"string.contains(message, 'b;')", true}, {"between('a,', 0, ';')", "b"}, {"between('z', 0, '')", null},
            {"message =~ /(\\w),(\\w).*/ ? $2 : nil", "b"}, {"timestamp.epochSecond", 1767323045L}, {"ok && n == 7", true},
            {"let a = n; for i in items { a = a + i; } return a;", 13L}, {"if n > 5 { return 'big'; } return 'small';", "big"},
            {"fn twice(x) { x * 2 } twice(n)", 14L}, {"fn apply(f) { f(n) } apply(lambda(x) -> x + 1 end)", 8L},
            {"str(n)", "7"}, {"long('12')", 12L}, {"double('1.5')", 1.5},
        };
        for (Object[] each : cases) {
            assertEquals(each[1], value((String) each[0]), (String) each[0]);
        }
    }

    @Test
    void withoutAnOutputFieldTheValueDecides() throws Throwable {
        assertTrue(run("level == 'error'").dropped);
        assertFalse(run("level == 'warn'").dropped);
        assertEquals(row().fields, run("nil").fields);
        MapRow set = run("seq.map('level', string.upper(level), 'code', status, 'none', nil)");
        assertEquals("WARN", set.fields.get("level"));
        assertEquals(404L, set.fields.get("code"));
        assertTrue(set.fields.containsKey("none"));
        assertNull(set.fields.get("none"));
        assertTrue(run("drop()").dropped);
        String message = assertThrows(IllegalArgumentException.class, () -> run("level")).getMessage();
        assertTrue(message.startsWith("the expression returned a value of type String, but "), message);
    }

    @Test
    void assignmentsStayInTheScriptAndInTheRow() throws Throwable {
        assertEquals("warn", run("level = 'x'; level == 'x'").fields.get("level"));
        Rule rule = compile("if is_def(seen) { return 'again'; } seen = 1; level = 'x'; return level;", spec("out", 0)).instance();
        for (int round = 0; round < 2; round++) {
            MapRow row = row();
            rule.process(row);
            assertEquals("x", row.fields.get("out"));
        }
    }

    @Test
    void fieldsAreThoseThatTheExpressionReads() throws CompileException {
        assertEquals(List.of("level", "user", "n"), compile("x = 1; level + user.name + message + x + \"#{n}\"", spec("out", 0)).fields());
        assertEquals(0, compile("level", spec("out", 0)).dynamicCalls());
    }

    @Test
    void nothingReachesBeyondTheEvent() {
        for (String attack : List.of("System.exit(1)", "java.lang.System.exit(1)", "Math.abs(1)", "new java.io.File('x')",
                "use java.io.*; 1",
                "load('x')", "require('x')", "import 'x'", "eval('1')", "exec('id')", "println('x')", "p('x')", "pst(1)", "level.class",
                "level.class.classLoader", "level. class", "\"#{level.class}\"", "\"#{level.cl\\u0061ss}\"", "user.name.class.module",
                "try { 1 } catch(e) { 2 }", "foo(1)", "level.toString()", "Runtime.getRuntime()", "level ==", "(1", "'open")) {
            assertThrows(CompileException.class, () -> compile(attack, spec("out", 0)), attack);
        }
        for (String attack : List.of("__env__", "__instance__", "__exp__", "seq.array(java.lang.String, 'x')", "java.lang.Math.PI")) {
            MapRow row = row();
            try {
                compile(attack, spec("out", 0)).instance().process(row);
                assertNull(row.fields.get("out"), attack);
            } catch (Throwable refused) {
                assertFalse(row.fields.containsKey("out"), attack);
            }
        }
    }

    @Test
    void anErrorHasItsPlace() {
        CompileException syntax = assertThrows(CompileException.class, () -> compile("level +\n  status )", spec("out", 0)));
        assertEquals(2, syntax.line());
        assertTrue(syntax.column() > 0);
        assertFalse(syntax.getMessage().contains("\n"));
        CompileException function = assertThrows(CompileException.class, () -> compile("level +\n  foo(1)", spec("out", 0)));
        assertEquals("function foo is not available in a rule", function.getMessage());
        assertEquals(2, function.line());
        assertEquals(3, function.column());
        for (String refused : List.of("'new' +\n  new java.util.Date()", "## new\n  new java.io.File('x')",
                "1 +\n  level.class", "'try';\n  try { 1 } catch(e) { 2 }", "level;\n  use java.io.*; 1", "level;\n  throw 'x'")) {
            CompileException error = assertThrows(CompileException.class, () -> compile(refused, spec("out", 0)));
            assertEquals(2, error.line(), refused + ": " + error.getMessage());
            assertTrue(error.column() > 0, refused + ": " + error.getMessage());
        }
    }

    @Test
    void functionsThatOnlyPrintDoNothing() throws Throwable {
        CompiledRule rule = compile("println(level); true", spec(null, 0, "println"));
        assertEquals(1, rule.removedCalls());
        MapRow row = row();
        rule.instance().process(row);
        assertFalse(row.dropped);
    }

    @Test
    void endlessLoopsEnd() throws Throwable {
        for (String script : List.of("while true { }", "let i = 0; while true { i = i + 1; }", "fn f(x) { f(x + 1) } f(0)",
                "while true { while true { } }", "for i in range(0, 1000000) { for j in range(0, 1000000) { } }")) {
            Rule rule = compile(script, spec(null, 100)).instance();
            assertTimeoutPreemptively(Duration.ofSeconds(60), () -> assertThrows(Throwable.class, () -> rule.process(row())), script);
        }
    }

    @Test
    void anInterruptEndsAScript() throws Throwable {
        Rule rule = compile("let i = 0; while true { while i < 5000 { i = i + n; } i = 0; }", spec(null, 0)).instance();
        Thread.currentThread().interrupt();
        try {
            String message = assertThrows(IllegalStateException.class, () -> rule.process(row())).getMessage();
            assertTrue(message.contains("interrupted"), message);
        } finally {
            assertTrue(Thread.interrupted());
        }
    }

    @Test
    void theClassOfAnExpressionIsUnloaded() throws Throwable {
        WeakReference<Class<?>> unloaded = compiledAndForgotten();
        for (int round = 0; round < 50 && unloaded.get() != null; round++) {
            System.gc();
            Thread.sleep(20);
        }
        assertNull(unloaded.get());
    }

    private static WeakReference<Class<?>> compiledAndForgotten() throws Throwable {
        CompiledRule rule = compile("fn f(x) { x * 2 } f(n) + count(map(items, lambda(x) -> x end))", spec("out", 0));
        rule.instance().process(row());
        return new WeakReference<>(((CompiledExpression) rule).expression.getClass());
    }
}
