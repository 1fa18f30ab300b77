package dev.millstream.operator.groovy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import dev.millstream.operator.runtime.CompileException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class GroovySafetyTest {
    /** A statement that the type checker cannot handle, so that the rule is compiled without types. */
    private static final String WITHOUT_TYPES = "'x'.eachMatch(/x/) { };";

    private static List<String> accepted(String prefix) {
        List<String> accepted = new ArrayList<>();
        for (String attack : Attacks.ALL.split("\n---\n")) {
            try {
                Rules.compile(placed(prefix, attack));
                accepted.add(attack);
            } catch (CompileException expected) {
                assertTrue(expected.getMessage().indexOf('\n') < 0, attack);
            }
        }
        return accepted;
    }

    /** Puts the prefix after annotations and imports, which must come first. */
    private static String placed(String prefix, String attack) {
        boolean header = attack.startsWith("@") || attack.startsWith("import") || attack.startsWith("package");
        return header ? attack + "\n;" + prefix : prefix + attack;
    }

    @Test
    void noAttackCompiles() {
        assertTrue(Attacks.ALL.split("\n---\n").length > 100);
        assertEquals(List.of(), accepted(""));
    }

    @Test
    void noAttackCompilesWithoutTypes() throws CompileException {
        assertTrue(Rules.compile(WITHOUT_TYPES + "row.x = row.level.length()").dynamicCalls() > 1);
        assertEquals(List.of(), accepted(WITHOUT_TYPES));
    }

    @Test
    void propertiesOfUnknownObjectsAreCheckedWhenTheyAreRead() {
        for (String script : List.of("row.s['class']", "'x'['class']", "def n = 'class'; row.s[n]", "'x'.getAt('class')",
                "row.s.properties",
                "row.s.bytes.properties", "Object o = row.timestamp; o.classLoader", "row.s['metaClass'] = null")) {
            for (String prefix : List.of("", WITHOUT_TYPES)) {
                assertNotRun(prefix + script);
            }
        }
    }

    private static void assertNotRun(String script) {
        try {
            Rules.run(script, new MapRow("s", "text", "message", "a b"));
        } catch (IllegalArgumentException refused) {
            assertTrue(refused.getMessage().endsWith("is not allowed in a script"), script + ": " + refused);
            return;
        } catch (CompileException refused) {
            return;
        } catch (Throwable other) {
            fail(script, other);
        }
        fail(script);
    }

    @Test
    void aRefusalNamesThePlaceAndTheWayOut() {
        CompileException method = assertThrows(CompileException.class, () -> Rules.compile("row.x = 1\nrow.y = 'id'.execute()"));
        assertEquals("method java.lang.String.execute is not allowed in a script", method.getMessage());
        assertEquals(2, method.line());
        assertEquals(9, method.column());
        CompileException type = assertThrows(CompileException.class, () -> Rules.compile("\n java.text.Collator.getInstance()"));
        assertEquals("class java.text.Collator is not allowed in a script (to allow a class, set `allow: [java.text.Collator]`)",
                type.getMessage());
        assertEquals(2, type.line());
    }

    @Test
    void theConfigurationAllowsClassesAndPackages() throws Throwable {
        String script = "def c = java.text.Collator.getInstance(Locale.ROOT); c.strength = 0; row.x = c.compare('a', 'A')";
        for (String entry : List.of("java.text.Collator", "java.text.*")) {
            MapRow row = new MapRow();
            Rules.compile(script, Rules.spec(List.of(entry))).instance().process(row);
            assertEquals(0L, row.fields.get("x"), entry);
        }
        assertThrows(CompileException.class, () -> Rules.compile(script, Rules.spec(List.of("java.text.Bidi"))));
    }
}
