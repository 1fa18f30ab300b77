package dev.millstream.javaagent;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.jar.Attributes;
import java.util.jar.JarEntry;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;

/** An agent that simulates another Java version. The {@code -D} option cannot do this, because the JVM sets the property itself. */
public final class OldVersion {
    private OldVersion() {}

    /**
     * Sets the version.
     *
     * @param version the version
     */
    public static void premain(String version) {
        System.setProperty("java.specification.version", version);
    }

    /** Writes the jar of this agent. Returns the argument that loads the jar. */
    static String argument(Path jar, String version) throws IOException {
        Manifest manifest = new Manifest();
        manifest.getMainAttributes().put(Attributes.Name.MANIFEST_VERSION, "1.0");
        manifest.getMainAttributes().putValue("Premain-Class", OldVersion.class.getName());
        String name = OldVersion.class.getName().replace('.', '/') + ".class";
        try (JarOutputStream out = new JarOutputStream(Files.newOutputStream(jar), manifest);
                InputStream type = OldVersion.class.getClassLoader().getResourceAsStream(name)) {
            out.putNextEntry(new JarEntry(name));
            type.transferTo(out);
        }
        return "-javaagent:" + jar + "=" + version;
    }
}
