package dev.millstream.operator.groovy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.junit.jupiter.api.Test;

/** Tests the results of scripts: the fields that they change, as text. */
class GroovyScriptsTest {
    private static final String[] STRINGS = {
        "row.level = row.level.toUpperCase()", "{level=WARN}",
        "row.host = row.service + '-' + row.level", "{host=api-warn}",
        "row['user-agent'] = row['s'].capitalize()", "{user-agent=Text}",
        "row.x = \"v${row.n}-${row.user.name}\"", "{x=v7-bob}",
        "row.x = row.level[0] + row.s[0..1] + row.message[2..-1]", "{x=wteb;c 12}",
        "row.x = row.message.split(',')[1] + row.message.split(/[,;]/).length", "{x=b;c 123}",
        "row.x = row.message.replaceAll(/[abc]/, 'z').replaceFirst('z', '')", "{x=,z;z 12}",
        "row.x = row.message.find(/\\d+/)?.toInteger()", "{x=12}",
        "if (row.message =~ /\\d+/) row.x = 'number'", "{x=number}",
        "def m = row.message =~ /(\\w),(\\w)/\nrow.x = m[0][2]", "{x=b}",
        "def m = (row.message =~ /(\\d+)/)\nif (m.find()) { row.x = m.group(1) as int }", "{x=12}",
        "row.message.eachMatch(/\\d/) { row.x = it }", "{x=2}",
        "row.x = row.level ==~ /warn|error/", "{x=true}",
        "row.x = row.s.matches('t.*') && !row.s.matches(/x/)", "{x=true}",
        "row.x = row.message.tokenize(' ,;').findAll { it.isNumber() }.collect { it as int }", "{x=[12]}",
        "row.x = row.text('status').padLeft(6, '0')", "{x=000404}",
        "row.x = String.format('%05d', row.n)", "{x=00007}",
        "row.x = row.s.bytes.encodeHex().toString()", "{x=74657874}",
        "row.x = between('a,', 0, ';')", "{x=b}",
        "def s = new StringBuilder()\nrow.user.tags.each { s << it << ',' }\ns.setLength(s.length() - 1)\nrow.x = s.toString()", "{x=x,y}",
        "def (a, b) = row.message.tokenize(',')\nrow.x = a; row.y = b", "{x=a, y=b;c 12}",
        "def a, b\n(a, b) = row.items\n(b, a) = [a, b]\ndef (String c, int d, e, f) = row.items\nrow.x = a + c + d; row.y = f",
            "{x=212, y=null}",
        "row.x = row.level + (row.missing ?: '-') + row.missing?.size()", "{x=warn-null}",
        "switch (row.level) { case 'warn': row.x = 1; break; case ~/e.*/: row.x = 2; break; default: row.x = 3 }", "{x=1}",
        "row.x = switch (row.s) { case 'a' -> 1; case ~/t.*/ -> 2; default -> 3 }", "{x=2}",
        "row.x = '''a\nb'''.readLines().size()", "{x=2}",
        "row.x = 'a-b'.toUpperCase().md5().length()", "{x=32}",
    };

    private static final String[] NUMBERS = {
        "row.x = row.status + 1", "{x=405}",
        "row.status += 1", "{status=405}",
        "row.status++", "{status=405}",
        "row.n++", "{n=8}",
        "row.n += 2; row.y = ++row.n; row.z = row.n--", "{n=9, y=10, z=10}",
        "row.x = row.n / 2 + row.n.intdiv(2) + row.n % 4 - -row.n", "{x=16.5}",
        "row.x = (row.n ** 2) % 10", "{x=9}",
        "row.x = row.n <=> 3", "{x=1}",
        "row.x = row.n == 7 && row.n != 8 && row.n > 6.5 && row.n >= 7 && 7 == row.n", "{x=true}",
        "row.x = row.status >= 400 && row.status < 500", "{x=true}",
        "row.x = row.nothing == null && !(row.nothing >= 400)", "{x=true}",
        "row.x = row.status in 400..499; row.y = row.n in 1..<7; row.z = row.n !in [8L]", "{x=true, y=false, z=true}",
        "switch (row.n) { case 1..5: row.x = 'low'; break; case 6..10: row.x = 'high'; break; default: row.x = 'none' }", "{x=high}",
        "row.x = row.ratio * 2 + row.n", "{x=8.0}",
        "row.ratio *= 100", "{ratio=50.0}",
        "row.x = Math.max(row.n, 3) + Math.round(row.ratio * 10)", "{x=12}",
        "row.x = Integer.parseInt('12') + Long.valueOf(1)", "{x=13}",
        "row.x = new BigDecimal(row.decimal).setScale(1, java.math.RoundingMode.HALF_UP)", "{x=1.3}",
        "row.x = (row.n as BigDecimal).setScale(2)", "{x=7.00}",
        "int i = row.n\nrow.x = i + 1", "{x=8}",
        "String s = row.n\nrow.x = s + 1", "{x=71}",
        "row.x = row.n as String", "{x=7}",
        "def z = row.n; z++; z *= 2; row.x = z", "{x=16}",
        "long fib(long n) { n < 2 ? n : fib(n - 1) + fib(n - 2) }\nrow.x = fib(10)", "{x=55}",
        "def fact\nfact = { long n -> n < 2 ? 1L : n * fact(n - 1) }\nrow.x = fact(5)", "{x=120}",
        "int i = 0\nwhile (true) { if (++i > 4) break }\ndo { i++ } while (i < 9)\nrow.x = i", "{x=9}",
        "row.x = row.n << 2 | 1 ^ 3 & row.n", "{x=30}",
    };

    private static final String[] COLLECTIONS = {
        "row.x = row.user.name; row.y = row.user['name']; row.z = row.user?.name?.toUpperCase()", "{x=bob, y=bob, z=BOB}",
        "row.x = row.missing?.foo?.bar", "{x=null}",
        "row.user.name = 'al'; row.user['k'] = 5; row.x = row.user.name + row.user.k", "{x=al5}",
        "row.user.count = 1; row.user.count += 2; row.user.count++; row.x = row.user.count", "{x=4}",
        "row.x = row.user.tags.collect { it.toUpperCase() }.join('-')", "{x=X-Y}",
        "row.x = row.user.tags*.toUpperCase()", "{x=[X, Y]}",
        "row.x = row.list*.a; row.y = row.list.a", "{x=[1, 2], y=[1, 2]}",
        "row.x = row.items.sum() + row.items.max() + row.items.size()", "{x=12}",
        "def t = 0; row.items.each { t += it }; row.x = t", "{x=6}",
        "row.x = row.items.inject(0) { a, b -> a + b }", "{x=6}",
        "row.x = row.items.findAll { it > 1 }; row.y = row.items.any { it == 2 }; row.z = row.items.every { it }",
            "{x=[2, 3], y=true, z=true}",
        "row.x = row.items.collate(2); row.y = row.items[-1]; row.z = row.items[0..1]", "{x=[[1, 2], [3]], y=3, z=[1, 2]}",
        "row.items[0] += 5; row.items[1]++; row.x = row.items", "{x=[6, 3, 3]}",
        "row.x = row.items.groupBy { it % 2 }.collectEntries { k, v -> [(k): v.size()] }", "{x={1=2, 0=1}}",
        "row.x = row.user.collectEntries { k, v -> [(k): v.toString()] }", "{x={name=bob, tags=[x, y]}}",
        "row.x = row.items.stream().map { it + 1 }.toList()", "{x=[2, 3, 4]}",
        "row.x = [3, 1, 2].sort().reverse().join(',')", "{x=3,2,1}",
        "row.x = ['a', 'b'].withIndex().collect { s, i -> s + i }", "{x=[a0, b1]}",
        "def m = [a: 1, b: [c: 2]]\nrow.x = m.b.c + m['a']; m.d = 4; row.y = m.size()", "{x=3, y=3}",
        "row.x = [a: 1] + [b: 2]; row.y = [1] + row.items; row.z = row.items - [2L]", "{x={a=1, b=2}, y=[1, 1, 2, 3], z=[1, 3]}",
        "for (i in 0..<3) { row[\"f$i\"] = i }", "{f0=0, f1=1, f2=2}",
        "for (int i = 0; i < 2; i++) { row[\"f\" + i] = row.items[i] }", "{f0=1, f1=2}",
        "for (e in row.user) { if (e.key == 'name') row.x = e.value }", "{x=bob}",
        "row.names().each { k -> if (row[k] instanceof String) row[k] = row[k] + '!' }",
            "{level=warn!, service=api!, s=text!, decimal=1.25!}",
        "int[] a = [3, 1]\na[0] += 2\nrow.x = a.sum() + a.length", "{x=8}",
        "outer: for (a in row.items) { for (b in row.items) { if (b == 2) continue outer; row.x = b } }", "{x=1}",
        "row.x = row.items.toSet().size() + (row.items as Set).size()", "{x=6}",
        "row.x = 'y' in row.user.tags", "{x=true}",
    };

    private static final String[] OTHERS = {
        "row.x = row.timestamp.plusSeconds(5); row.y = row.timestamp.epochSecond", "{x=2026-01-02T03:04:10Z, y=1767323045}",
        "import java.time.ZoneOffset\nrow.x = row.timestamp.atZone(ZoneOffset.UTC).year", "{x=2026}",
        "row.x = java.time.LocalDate.parse('2026-01-02').dayOfWeek.toString()", "{x=FRIDAY}",
        "row.x = java.time.Duration.ofSeconds(row.n).toMillis()", "{x=7000}",
        "row.timestamp = java.time.Instant.ofEpochSecond(row.n)", "{timestamp=1970-01-01T00:00:07Z}",
        "row.message = row.message.reverse()", "{message=21 c;b,a}",
        "row.x = !row.ok || row.ok ? 'yes' : 'no'", "{x=yes}",
        "row.missing ?= 'd'; row.s ?= 'e'", "{missing=d}",
        "row.x = row.has('s'); row.remove('s'); row.y = row.has('s'); row.z = row.integer('n', 0)", "{s=removed, x=true, y=false, z=7}",
        "def f(String a, int n = 5) { a.padRight(n, '.') }\nrow.x = f(row.s) + f(row.level, 6)", "{x=text.warn..}",
        "def f(r) { r.q = r.n + 1; r.level }\nrow.x = f(row)", "{q=8, x=warn}",
        "def other = row\nother.x = other.n + other.status", "{x=411}",
        "def f = { it * 2 }\nrow.x = f(row.n) + f.call(1)", "{x=16}",
        "def add = { a, b = 2 -> a + b }\nrow.x = add(1) + add.curry(5).call(1)", "{x=9}",
        "import groovy.transform.Field\n@Field int count = 0\n@Field Map seen = [:]\ncount++\nseen[row.s] = count\nrow.x = seen",
            "{x={text=1}}",
        "class P { int a; String b() { \"p$a\" } }\ndef p = new P(a: 3)\np.a += 1\nrow.x = p.b() + p.a", "{x=p44}",
        "class P { int v; P(int v) { this.v = v }; P plus(P o) { new P(v + o.v) } }\nrow.x = (new P(1) + new P(2)).v", "{x=3}",
        "enum E { A(1), B(2); int v; E(int v) { this.v = v } }\nrow.x = E.B.v + E.valueOf('A').v", "{x=3}",
        "try { throw new IllegalStateException('x') } catch (e) { row.x = e.message } finally { row.y = 1 }", "{x=x, y=1}",
        "try { row.s.foo.bar } catch (Exception e) { row.x = 'caught' }", "{x=caught}",
        "row.x = row.s.with { it + it.length() }; row.y = row.level.with { toUpperCase() }", "{x=text4, y=WARN}",
        "assert row.n == 7\nrow.x = 1", "{x=1}",
        "row.x = [1, 2, 3].collect(String::valueOf)", "{x=[1, 2, 3]}",
        "Runnable r = { row.x = 1 }\nr.run()", "{x=1}",
        "return\nrow.x = 1", "{}",
        "", "{}",
    };

    private static MapRow row() {
        Map<String, Object> user = new LinkedHashMap<>(Map.of("name", "bob"));
        user.put("tags", new ArrayList<>(List.of("x", "y")));
        return new MapRow("message", "a,b;c 12", "level", "warn", "service", "api", "status", 404L, "ratio", 0.5, "ok", true, "n", 7L, "s",
                "text", "decimal", "1.25", "user", user, "items", new ArrayList<>(List.of(1L, 2L, 3L)), "list",
                List.of(Map.of("a", 1L), Map.of("a", 2L)));
    }

    /** Runs a script. Returns the fields that the script has set and removed. */
    private static String changes(String script) throws Throwable {
        MapRow row = row();
        Map<String, Object> before = new LinkedHashMap<>(row.fields);
        Rules.run(script, row);
        Map<String, Object> changed = new LinkedHashMap<>();
        before.keySet().forEach(name -> {
            if (!row.fields.containsKey(name)) {
                changed.put(name, "removed");
            }
        });
        row.fields.forEach((name, value) -> {
            if (!before.containsKey(name) || !Objects.equals(before.get(name), value)) {
                changed.put(name, value);
            }
        });
        return changed.toString();
    }

    private static void assertAll(String[] scriptsAndChanges) {
        assertAll("", scriptsAndChanges);
    }

    private static void assertAll(String prefix, String[] scriptsAndChanges) {
        List<String> wrong = new ArrayList<>();
        for (int at = 0; at < scriptsAndChanges.length; at += 2) {
            String script = scriptsAndChanges[at];
            String placed = script.startsWith("import") ? script + "\n" + prefix : prefix + script;
            try {
                String changes = changes(placed);
                if (!changes.equals(scriptsAndChanges[at + 1])) {
                    wrong.add(script + " -> " + changes);
                }
            } catch (Throwable thrown) {
                wrong.add(script + " -> " + thrown);
            }
        }
        assertEquals("", String.join("\n", wrong));
    }

    @Test
    void textIsChanged() {
        assertAll(STRINGS);
    }

    @Test
    void numbersAreComputed() {
        assertAll(NUMBERS);
    }

    @Test
    void mapsAndListsAreRead() {
        assertAll(COLLECTIONS);
    }

    @Test
    void timesFunctionsAndClassesWork() {
        assertAll(OTHERS);
    }

    @Test
    void allWorkWithoutTypes() {
        String prefix = "'x'.eachMatch(/x/) { };";
        for (String[] scripts : Arrays.asList(STRINGS, NUMBERS, COLLECTIONS, OTHERS)) {
            assertAll(prefix, scripts);
        }
    }

    @Test
    void eventsAreDroppedAndEmitted() throws Throwable {
        MapRow row = row();
        Rules.run("if (row.level == 'warn') { emit([a: row.n, b: \"x${row.s}\"]); row.emit(b: 2); drop() }", row);
        assertTrue(row.dropped);
        assertEquals("[{a=7, b=xtext}, {b=2}]", row.emitted.toString());
        MapRow other = row();
        Rules.run("row.drop()", other);
        assertTrue(other.dropped);
        assertEquals(Instant.parse("2026-01-02T03:04:05Z"), other.timestamp());
    }
}
