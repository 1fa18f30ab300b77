package dev.millstream.operator.groovy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.millstream.operator.runtime.CompileException;
import dev.millstream.operator.runtime.CompiledRule;
import dev.millstream.operator.runtime.Rule;
import java.lang.ref.WeakReference;
import java.math.BigDecimal;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class GroovyLanguageTest {
    private static String failure(String script, MapRow row) {
        return assertThrows(Throwable.class, () -> Rules.run(script, row), script).getMessage();
    }

    private static CompileException error(String script) {
        return assertThrows(CompileException.class, () -> Rules.compile(script), script);
    }

    @Test
    void declaredFieldsAreStatic() throws Throwable {
        assertEquals(0, Rules.compile("row.level = row.level.toUpperCase(); row.status += 1; row.ratio = row.ratio * 2").dynamicCalls());
        assertEquals(0, Rules.compile("row.x = row.message.length() + row.timestamp.epochSecond").dynamicCalls());
        assertEquals(0, Rules.compile("def (a, b) = row.message.tokenize(','); row.x = a.toUpperCase() + b.length()").dynamicCalls());
        assertEquals(1, Rules.compile("row.x = row.other.toUpperCase()").dynamicCalls());
        assertEquals(2, Rules.compile("row.x = row.user.name + 1").dynamicCalls());
        MapRow row = new MapRow("at", null);
        Rules.run("row.x = row.level; row.y = row.at; row.z = row.ok == null", row);
        assertNull(row.fields.get("x"));
        assertEquals(true, row.fields.get("z"));
    }

    @Test
    void safeNavigationOverNothingIsNullWhateverItsType() throws Throwable {
        MapRow row = new MapRow("ok", true);
        Rules.run("row.x = row.level?.length(); row.y = row.level?.isEmpty(); row.z = row.level?.length() ?: 7", row);
        assertTrue(row.fields.containsKey("x"));
        assertNull(row.fields.get("x"));
        assertNull(row.fields.get("y"));
        assertEquals(7, ((Number) row.fields.get("z")).intValue());
    }

    @Test
    void aDeclaredFieldOfAnotherTypeFails() {
        assertEquals("field status: expected int, found text \"abc\"", failure("row.status + 1", new MapRow("status", "abc")));
        assertEquals("field status: 18446744073709551616 does not fit in a 64-bit int;"
                + " remove the declared type to read the value as a BigInteger",
                failure("row.x = row.status", new MapRow("status", new java.math.BigInteger("18446744073709551616"))));
        assertEquals("field level: expected text, found int 5", failure("row.level.length()", new MapRow("level", 5L)));
        assertEquals("field ok: expected bool, found array [1]", failure("row.x = row.ok", new MapRow("ok", List.of(1L))));
        assertEquals("field at: expected time, found bool true", failure("row.x = row.at", new MapRow("at", true)));
        assertEquals("field ratio: expected float, found object {}", failure("row.x = row.ratio", new MapRow("ratio", Map.of())));
    }

    @Test
    void integersAreReadAsDeclaredFloats() throws Throwable {
        MapRow row = new MapRow("ratio", 2L);
        Rules.run("row.x = row.ratio / 4", row);
        assertEquals(0.5, row.fields.get("x"));
    }

    @Test
    void valuesKeepTheirTypes() throws Throwable {
        for (String prefix : List.of("", "'x'.eachMatch(/x/) { };")) {
            MapRow row = new MapRow("n", 7L);
            Rules.run(prefix + "row.i = 1; row.d = 1.5d; row.b = true; row.big = 1.50; row.c = 'x' as char; row.l = row.n;"
                    + "row.set('s', 2.50)", row);
            assertEquals(1L, row.fields.get("i"));
            assertEquals(1.5, row.fields.get("d"));
            assertEquals(true, row.fields.get("b"));
            assertEquals(new BigDecimal("1.50"), row.fields.get("big"));
            assertEquals('x', row.fields.get("c"));
            assertEquals(7L, row.fields.get("l"));
            assertEquals(new BigDecimal("2.50"), row.fields.get("s"));
        }
    }

    @Test
    void fieldsAreTheNamesInTheSource() throws CompileException {
        CompiledRule rule = Rules.compile(
                "row.a = row['b'] + row.text('c') + row.message + row.get('a'); row.remove('d'); row[row.e]; row['meta.host']");
        assertEquals(List.of("a", "b", "c", "d", "e"), rule.fields().stream().sorted().toList());
    }

    @Test
    void statementsThatOnlyPrintAreRemoved() throws Throwable {
        String script = """
                println 'x'
                System.out.println(row.n++)
                if (row.n > 1) log.info('big')
                log?.debug { 'x' }
                [1].each { print it }
                try { row.n.foo() } catch (e) { e.printStackTrace() }
                row.x = 1
                """;
        CompiledRule rule = Rules.compile(script.replace("row.n.foo()", "row.n.length()"),
                Rules.spec(List.of(), "println", "print", "printStackTrace", "log.*"));
        assertEquals(6, rule.removedCalls());
        MapRow row = new MapRow("n", 7L);
        rule.instance().process(row);
        assertEquals(7L, row.fields.get("n"));
        assertEquals(1L, row.fields.get("x"));
        assertThrows(CompileException.class, () -> Rules.compile("println 'x'"));
        CompiledRule own = Rules.compile("def print(x) { row.x = x }\nprint(3)", Rules.spec(List.of(), "print"));
        assertEquals(0, own.removedCalls());
    }

    @Test
    void classesOfDefaultPackagesNeedNoImport() throws Throwable {
        for (String prefix : List.of("", "'x'.eachMatch(/x/) { };")) {
            MapRow row = new MapRow();
            Rules.run(prefix + "Map<String, Object> map = new LinkedHashMap<>(); map.put('a', new BigInteger('7'))\n"
                    + "BigDecimal sum = new BigDecimal('1.5'); Closure<Long> one = { -> 1L }; row.a = map.a; row.b = sum\n"
                    + "row.c = one.call(); row.d = Integer.valueOf(3) as long; Map.Entry<String, Object> first = map.entrySet().first()\n"
                    + "row.e = first.key; UncheckedIOException none = null; Instant now = null; row.f = none == now", row);
            assertEquals(List.of("7", "1.5", "1", "3", "a", "true"),
                    List.of("a", "b", "c", "d", "e", "f").stream().map(name -> row.fields.get(name).toString()).toList());
        }
        assertEquals("unable to resolve class SimpleDateFormat", error("SimpleDateFormat format = null").getMessage());
    }

    @Test
    void errorsHaveTheirPlace() {
        CompileException syntax = error("row.a = 1\nif (row.n > 3 {");
        assertEquals(2, syntax.line());
        assertEquals("script", syntax.rule());
        assertFalse(syntax.getMessage().contains("\n"));
        CompileException method = error("row.a = 1\n\n  row.level.toUperCase()");
        assertEquals("no method toUperCase in java.lang.String", method.getMessage());
        assertEquals(3, method.line());
        assertEquals(3, method.column());
        assertEquals("variable level is not declared; use row.level for a field, or declare a variable with def level",
                error("level.length()").getMessage());
        assertEquals("no function foo", error("foo(1)").getMessage());
        CompileException pattern = error("row.a = 1\nrow.b = row.message =~ /(/");
        assertTrue(pattern.getMessage().startsWith("invalid regular expression: Unclosed group"), pattern.getMessage());
        assertEquals(2, pattern.line());
        for (String call : List.of("row.message.matches('[')", "row.message.split('a(')", "~/+/", "java.util.regex.Pattern.compile('+')",
                "row.message.replaceAll('(', '')", "row.x ==~ /[/")) {
            assertTrue(error("row.y = " + call).getMessage().startsWith("invalid regular expression"), call);
        }
    }

    @Test
    void theLineOfAFailureIsThatOfTheSource() throws Throwable {
        for (String script : List.of("\nrow.x = 1\nrow.y = row.nothing.length()",
                "def f() {\n  1\n  throw new IllegalStateException('x')\n}\nf()",
                "[1].each {\n\n  row.nothing.foo.bar\n}", "row.a = 1\n\nrow.level = row.s.foo.bar")) {
            CompiledRule rule = Rules.compile(script);
            Throwable thrown = assertThrows(Throwable.class, () -> rule.instance().process(new MapRow()));
            assertEquals(3, rule.line(thrown), script);
        }
        assertEquals(0, Rules.compile("row.x = 1").line(new Throwable()));
    }

    @Test
    void exceptionsOfDynamicCallsAreTheirOwn() throws Throwable {
        MapRow row = new MapRow("s", "text");
        assertThrows(StringIndexOutOfBoundsException.class, () -> Rules.run("row.s.substring(9)", row));
        assertThrows(StringIndexOutOfBoundsException.class,
                () -> Rules.run("'x'.eachMatch(/x/) { }; [1].each { row.s.substring(9) }", row));
    }

    @Test
    void everyWorkerHasItsVariables() throws Throwable {
        CompiledRule rule = Rules.compile("@groovy.transform.Field int count = 0\nrow.x = ++count");
        Rule first = rule.instance();
        Rule second = rule.instance();
        assertNotSame(first, second);
        MapRow row = new MapRow();
        first.process(row);
        first.process(row);
        assertEquals(2L, row.fields.get("x"));
        second.process(row);
        assertEquals(1L, row.fields.get("x"));
    }

    @Test
    void anInterruptEndsEveryLoop() throws Throwable {
        String loop = "while (true) { %s }";
        for (String script : List.of(loop, "for (;;) { %s }", "do { %s } while (true)",
                "def f() { %s; f() }\nf()", "def c\nc = { %s; c() }\nc()",
                "(1..Integer.MAX_VALUE).each { %s }", "while (true) { try { while (true) { %s } } catch (Throwable t) { } }",
                "while (true) { try { while (true) { %s } } catch (e) { } finally { continue } }",
                "while (true) { try { while (true) { %s } } catch (Error e) { row.x = 1 } }",
                "java.util.stream.Stream.iterate(0) { it + 1 }.each { %s }")) {
            for (String prefix : List.of("", "'x'.eachMatch(/x/) { };")) {
                Rule rule = Rules.compile(prefix + script.replace("%s", "row.y = 1")).instance();
                assertTimeoutPreemptively(Duration.ofSeconds(60), () -> assertInterrupted(rule), script);
            }
        }
    }

    private static void assertInterrupted(Rule rule) {
        Thread.currentThread().interrupt();
        assertThrows(RuleInterrupted.class, () -> rule.process(new MapRow()));
        assertTrue(Thread.interrupted());
    }

    @Test
    void theClassesOfARuleAreUnloaded() throws Throwable {
        for (String script : List.of("row.level = row.level.toUpperCase()",
                "row.x = row.user.name.size(); row.items.each { row.y = it + 1 }",
                "def (a, b) = row.level.tokenize(); 'x'.eachMatch(/x/) { }; class P { int v }; row.x = new P(v: 1).v; row.user.name = a")) {
            WeakReference<Class<?>> unloaded = compiledAndForgotten(script);
            for (int round = 0; round < 20 && unloaded.get() != null; round++) {
                clearSoftReferences();
                System.gc();
                Thread.sleep(20);
            }
            assertNull(unloaded.get(), script);
        }
    }

    /** Exhausts the heap to clear soft references, in which Groovy keeps information about classes. */
    private static void clearSoftReferences() {
        assertThrows(OutOfMemoryError.class, () -> {
            long[][] all = new long[64][];
            for (int at = 0; at < all.length; at++) {
                all[at] = new long[Integer.MAX_VALUE - 8];
            }
        });
    }

    private static WeakReference<Class<?>> compiledAndForgotten(String script) throws Throwable {
        Rule rule = Rules.compile(script).instance();
        for (int round = 0; round < 200; round++) {
            rule.process(new MapRow("level", "a b", "user", new HashMap<>(Map.of("name", "bob")), "items", List.of(1L)));
        }
        return new WeakReference<>(rule.getClass());
    }
}
