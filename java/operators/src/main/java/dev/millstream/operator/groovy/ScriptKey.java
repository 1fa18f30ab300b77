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
 * A checksum of everything that a script's compilation depends on: the text, the kind, the parts of the specification that the compiler
 * reads, the visible jars, and the versions of Java and of this package.
 *
 * <p>The checksum detects changes but does not resist forgery, because the process that keeps compiled scripts also controls their text. A
 * cryptographic digest would take 30 ms in a new process.
 */
final class ScriptKey {
    private final Checksum first = new CRC32();
    private final Checksum second = new CRC32C();

    private ScriptKey() {}

    /**
     * Returns the checksum.
     *
     * @param jars the paths of the jars that a collector can use
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

    /** Adds the agent's jar, because compiled scripts call this package, and another version of this package allows other classes. */
    private void addRuntime() {
        CodeSource code = ScriptKey.class.getProtectionDomain().getCodeSource();
        if (code != null && code.getLocation().getProtocol().equals("file")) {
            addFile(new File(URI.create(code.getLocation().toString())));
        }
    }

    /** Adds the attributes that change if a file is replaced. */
    private void addFile(File file) {
        add(file.length());
        add(file.lastModified());
    }
}
