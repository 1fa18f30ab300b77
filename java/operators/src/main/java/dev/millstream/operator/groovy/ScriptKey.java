package dev.millstream.operator.groovy;

import dev.millstream.operator.runtime.OperatorSpec;
import dev.millstream.operator.runtime.RuleSource;
import java.io.File;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.security.CodeSource;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;
import java.util.zip.Checksum;

/**
 * A checksum of all that the compilation of a script depends on: its text, its kind, the parts of the specification that the
 * compiler reads, the jars that it sees, and the versions of Java and of this package.
 *
 * <p>It finds changes; it does not resist forgery, since the process that keeps compiled scripts also decides about their text. A
 * cryptographic digest would cost 30 ms in a new process.
 */
final class ScriptKey {
    private final Checksum first = new CRC32();
    private final Checksum second = new CRC32C();

    private ScriptKey() {}

    /**
     * Returns the number.
     *
     * @param jars the paths of the jars that a collector sees
     */
    static long of(ScriptKind kind, RuleSource source, OperatorSpec spec, List<String> jars) {
        ScriptKey key = new ScriptKey();
        key.add(Runtime.version().toString());
        key.addRuntime();
        key.add(kind.name());
        key.add(source.name());
        key.add(source.text());
        key.add(spec.allow());
        key.add(spec.removedCalls());
        key.add(spec.fields());
        key.add(jars);
        for (String jar : jars) {
            key.addFile(new File(jar));
        }
        return key.first.getValue() << Integer.SIZE | key.second.getValue();
    }

    private void add(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        add(bytes.length);
        first.update(bytes);
        second.update(bytes);
    }

    private void add(long number) {
        for (int shift = 0; shift < Long.SIZE; shift += Byte.SIZE) {
            first.update((int) (number >>> shift));
            second.update((int) (number >>> shift));
        }
    }

    private void add(List<String> texts) {
        List<String> all = texts == null ? List.of() : texts;
        add(all.size());
        for (String text : all) {
            add(text);
        }
    }

    private void add(Map<String, String> texts) {
        Map<String, String> sorted = new TreeMap<>(texts == null ? Map.of() : texts);
        add(sorted.size());
        for (Map.Entry<String, String> each : sorted.entrySet()) {
            add(each.getKey());
            add(each.getValue());
        }
    }

    /** Adds the jar of the agent: compiled scripts call this package, and another version of it allows other classes. */
    private void addRuntime() {
        CodeSource code = ScriptKey.class.getProtectionDomain().getCodeSource();
        if (code != null && code.getLocation().getProtocol().equals("file")) {
            addFile(new File(URI.create(code.getLocation().toString())));
        }
    }

    /** Adds what changes if a file is replaced. */
    private void addFile(File file) {
        add(file.length());
        add(file.lastModified());
    }
}
