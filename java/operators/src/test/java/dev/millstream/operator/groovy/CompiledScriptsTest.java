package dev.millstream.operator.groovy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import dev.millstream.operator.groovy.CompiledScript.ClassFile;
import dev.millstream.operator.runtime.CompileException;
import dev.millstream.operator.runtime.CompiledRule;
import dev.millstream.operator.runtime.OperatorSpec;
import dev.millstream.operator.runtime.Rule;
import dev.millstream.operator.runtime.RuleSource;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Tests rules that are registered with the result of an earlier compilation. */
class CompiledScriptsTest {
    /** A statement that the type checker cannot handle, so that the rule is compiled without types. */
    private static final String WITHOUT_TYPES = "'x'.eachMatch(/x/) { };";
    private static final String TEXT = "row.x = 1";
    private static final OperatorSpec SPEC = spec(Map.of("level", "text"), List.of(), List.of());
    private static final GroovyLanguage LANGUAGE = new GroovyLanguage();

    private static OperatorSpec spec(Map<String, String> fields, List<String> allow, List<String> removed) {
        return new OperatorSpec("test", "groovy", List.of(), null, null, Map.of(), fields, null, 0, allow, removed, true);
    }

    private static CompiledRule compile(String text, String compiled) throws CompileException {
        return LANGUAGE.compile(new RuleSource("script", text, compiled), SPEC);
    }

    private static String compiled(String text) throws CompileException {
        return compile(text, null).takeCompiled();
    }

    private static Object result(CompiledRule rule) throws Throwable {
        MapRow row = new MapRow("level", "info", "n", 2L, "list", List.of(3L, 4L));
        rule.instance().process(row);
        return row.fields;
    }

    private static long key(ScriptKind kind, String name, String text, OperatorSpec spec) {
        return ScriptKey.of(kind, new RuleSource(name, text), spec, List.of());
    }

    /** Returns another script under the key of {@link #TEXT}. A rule that uses this script sets {@code x} to 2. */
    private static String disguised(long key) throws CompileException {
        return CompiledScripts.write(ScriptCompilers.rule(new RuleSource("script", "row.x = 2"), SPEC), key);
    }

    private static Object x(CompiledRule rule) throws Throwable {
        MapRow row = new MapRow();
        rule.instance().process(row);
        return row.fields.get("x");
    }

    @Test
    void aRuleIsTheSameWithoutItsCompiler() throws Throwable {
        for (String text : List.of(
                "row.level = row.level.toUpperCase()\nrow.x = row.message.split('[.]').length",
                WITHOUT_TYPES + "row.x = row.n * 2; row.y = row.list.collect { it + row.n }; row.z = \"$row.level!\"",
                "row.x = row.list.collect { a -> row.list.collect { b -> \"$a-$b\".toString() } }.flatten()",
                "class Sum { long of(List all) { long sum = 0; for (Object each : all) { sum += (Long) each }; sum } }\n"
                        + "row.x = new Sum().of((List) row.list)",
                "println row.n\nrow.x = row.other?.name")) {
            OperatorSpec spec = spec(Map.of("level", "text"), List.of(), List.of("println"));
            CompiledRule first = LANGUAGE.compile(new RuleSource("a-b.groovy", text), spec);
            String kept = first.takeCompiled();
            CompiledRule again = LANGUAGE.compile(new RuleSource("a-b.groovy", text, kept), spec);
            assertEquals(first.fields(), again.fields(), text);
            assertEquals(first.removedCalls(), again.removedCalls(), text);
            assertEquals(first.dynamicCalls(), again.dynamicCalls(), text);
            assertEquals(result(first), result(again), text);
            assertEquals(kept, again.takeCompiled(), text);
            assertNull(again.takeCompiled(), text);
            assertNull(first.takeCompiled(), text);
        }
    }

    @Test
    void failuresHaveTheSameLine() throws Throwable {
        for (String prefix : List.of("", WITHOUT_TYPES)) {
            String text = prefix + "row.x = 1\n[1].each {\n  throw new IllegalStateException('no')\n}";
            CompiledRule rule = compile(text, compiled(text));
            try {
                rule.instance().process(new MapRow());
            } catch (IllegalStateException thrown) {
                assertEquals(3, rule.line(thrown), text);
                continue;
            }
            throw new AssertionError("does not fail: " + text);
        }
    }

    @Test
    void eachRegistrationHasItsOwnClasses() throws Throwable {
        String text = "@groovy.transform.Field static int count = 0\nrow.x = ++count";
        String kept = compiled(text);
        Rule first = compile(text, kept).instance();
        MapRow row = new MapRow();
        first.process(row);
        first.process(row);
        assertEquals(2L, row.fields.get("x"));
        assertEquals(1L, x(compile(text, kept)));
    }

    @Test
    void nothingIsKeptUnlessAskedFor() throws Throwable {
        assertNull(Rules.compile(TEXT).takeCompiled());
        OperatorSpec spec = Rules.spec(List.of());
        String disguised = disguised(key(ScriptKind.RULE, "script", TEXT, spec));
        CompiledRule rule = LANGUAGE.compile(new RuleSource("script", TEXT, disguised), spec);
        assertEquals(2L, x(rule));
        assertNull(rule.takeCompiled());
    }

    @Test
    void onlyWhatWasCompiledFromTheSameIsUsed() throws Throwable {
        String same = disguised(key(ScriptKind.RULE, "script", TEXT, SPEC));
        assertEquals(2L, x(compile(TEXT, same)));
        assertEquals(same, compile(TEXT, same).takeCompiled());
        for (long key : List.of(
                key(ScriptKind.COLLECTOR, "script", TEXT, SPEC),
                key(ScriptKind.RULE, "script2", TEXT, SPEC),
                key(ScriptKind.RULE, "script", TEXT + "\n", SPEC),
                key(ScriptKind.RULE, "script", TEXT, spec(Map.of(), List.of(), List.of())),
                key(ScriptKind.RULE, "script", TEXT, spec(Map.of("level", "int"), List.of(), List.of())),
                key(ScriptKind.RULE, "script", TEXT, spec(Map.of("level", "text"), List.of("java.text.*"), List.of())),
                key(ScriptKind.RULE, "script", TEXT, spec(Map.of("level", "text"), List.of(), List.of("java.text.*"))),
                ScriptKey.of(ScriptKind.RULE, new RuleSource("script", TEXT), SPEC, List.of("/a.jar")))) {
            CompiledRule rule = compile(TEXT, disguised(key));
            assertEquals(1L, x(rule));
            assertNotEquals(same, rule.takeCompiled());
        }
    }

    @Test
    void damagedInputIsCompiledAnew() throws Throwable {
        String whole = disguised(key(ScriptKind.RULE, "script", TEXT, SPEC));
        byte[] blob = Base64.getDecoder().decode(whole);
        List<String> damaged = new ArrayList<>(List.of("", "?", "AAAA", "no Base64", whole.substring(1), whole + whole));
        for (int length = 0; length < blob.length; length += 97) {
            damaged.add(Base64.getEncoder().encodeToString(Arrays.copyOf(blob, length)));
            byte[] changed = blob.clone();
            changed[length] ^= 1;
            damaged.add(Base64.getEncoder().encodeToString(changed));
        }
        damaged.add(Base64.getEncoder().encodeToString(Arrays.copyOf(blob, blob.length + 1)));
        for (int at = 0; at < 20; at++) {
            byte[] changed = blob.clone();
            changed[at] ^= (byte) 0x80;
            damaged.add(Base64.getEncoder().encodeToString(changed));
        }
        long key = key(ScriptKind.RULE, "script", TEXT, SPEC);
        damaged.forEach(text -> assertNull(CompiledScripts.read(text, key), text));
        assertNotNull(CompiledScripts.read(whole, key));
        for (String text : damaged.subList(0, 10)) {
            CompiledRule rule = compile(TEXT, text);
            assertEquals(1L, x(rule));
            assertEquals(1L, x(compile(TEXT, rule.takeCompiled())));
        }
    }

    @Test
    void classesThatCannotBeDefinedAreCompiledAnew() throws Throwable {
        long key = key(ScriptKind.RULE, "script", TEXT, SPEC);
        CompiledScript script = ScriptCompilers.rule(new RuleSource("script", TEXT), SPEC);
        byte[] bytes = script.classes().get(0).bytes();
        for (List<ClassFile> classes : List.of(
                List.<ClassFile>of(),
                List.of(new ClassFile("rule_script", new byte[] {1, 2, 3})),
                List.of(new ClassFile("rule_other", bytes)),
                List.of(new ClassFile("rule_script", bytes), new ClassFile("rule_script", bytes)))) {
            String text = CompiledScripts.write(new CompiledScript("rule_script", classes, List.of(), 0, 0), key);
            CompiledRule rule = compile(TEXT, text);
            assertEquals(1L, x(rule));
            assertNotEquals(text, rule.takeCompiled());
        }
    }

    @Test
    void namesOfAnyLengthAreKept() {
        List<String> fields = List.of("", "\u00e9\ud83d\ude00\ud800", "x".repeat(100_000));
        CompiledScript script = new CompiledScript("a", List.of(new ClassFile("b", new byte[0])), fields, 3, 4);
        CompiledScript read = CompiledScripts.read(CompiledScripts.write(script, -1), -1);
        assertEquals(fields, read.fields());
        assertEquals(List.of("a", 3, 4), List.of(read.className(), read.removedCalls(), read.dynamicCalls()));
        assertEquals("b", read.classes().get(0).name());
    }
}
