package dev.millstream.operator.runtime;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.jar.JarOutputStream;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import javax.tools.ToolProvider;

/** Compiles classes into jars, for tests. */
final class Jars {
    private static final String IMPORTS = "import dev.millstream.operator.*; import java.util.*; import dev.millstream.collector.*; ";

    private Jars() {}

    /** Compiles sources, which are given by the simple names of their classes. */
    static Path compile(Path folder, Map<String, String> sources) {
        try {
            Path classes = Files.createTempDirectory(folder, "classes");
            List<String> arguments = new ArrayList<>(List.of("-d", classes.toString(), "-proc:none"));
            for (Map.Entry<String, String> source : sources.entrySet()) {
                Path file = classes.resolve(source.getKey() + ".java");
                Files.writeString(file, IMPORTS + source.getValue());
                arguments.add(file.toString());
            }
            if (ToolProvider.getSystemJavaCompiler().run(null, null, null, arguments.toArray(String[]::new)) != 0) {
                throw new IllegalArgumentException("does not compile");
            }
            return pack(folder, classes);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static Path pack(Path folder, Path classes) throws IOException {
        Path jar = Files.createTempFile(folder, "operator", ".jar");
        try (JarOutputStream out = new JarOutputStream(Files.newOutputStream(jar)); Stream<Path> files = Files.list(classes)) {
            for (Path file : files.filter(each -> each.toString().endsWith(".class")).toList()) {
                out.putNextEntry(new ZipEntry(file.getFileName().toString()));
                out.write(Files.readAllBytes(file));
            }
        }
        return jar;
    }

    static OperatorSpec spec(Path jar, String className, Map<String, Object> options) {
        return new OperatorSpec(
                "jvm1", "class", List.of(), jar.toString(), className, options, Map.of(), null, 0, List.of(), List.of());
    }
}
