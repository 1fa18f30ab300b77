package dev.millstream.operator.runtime;

import java.io.IOException;
import java.io.InputStream;
import java.net.MalformedURLException;
import java.net.URL;
import java.nio.file.Path;
import java.security.CodeSource;
import java.security.SecureClassLoader;
import java.security.cert.Certificate;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.jar.JarFile;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

/**
 * Loads the classes in jars. The first jar has precedence. The classes can use the JDK and the API of operators and collectors, but nothing
 * else of the agent.
 *
 * <p>Calls that would end the process are replaced; see {@link ExitGuard}.
 */
final class JarLoader extends SecureClassLoader {
    private static final List<String> APIS = List.of("dev.millstream.operator.", "dev.millstream.collector.");
    private static final int VERSION_OFFSET = 6;

    static {
        registerAsParallelCapable();
    }

    private final List<Jar> jars = new ArrayList<>();
    private int newestVersion;

    /**
     * Creates a loader without jars.
     *
     * @param name the name of the loader
     */
    JarLoader(String name) {
        super(name, ClassLoader.getPlatformClassLoader());
    }

    /** An open jar. */
    private record Jar(JarFile file, URL url, CodeSource source) {}

    /** An entry of a jar. */
    private record Found(Jar jar, ZipEntry entry) {}

    /** Adds a jar. Must be called before a class is loaded. */
    void add(Path path) throws IOException {
        URL url = path.toUri().toURL();
        JarFile file = new JarFile(path.toFile(), false, ZipFile.OPEN_READ, JarFile.runtimeVersion());
        jars.add(new Jar(file, url, new CodeSource(url, (Certificate[]) null)));
    }

    /** Returns the newest version of the class files that were read. */
    synchronized int newestVersion() {
        return newestVersion;
    }

    private synchronized void noteVersion(int version) {
        newestVersion = Math.max(newestVersion, version);
    }

    /** Closes the jars. Loaded classes can still run, but cannot load other classes. */
    void close() {
        for (Jar jar : jars) {
            try {
                jar.file.close();
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    private Found find(String name) {
        for (Jar jar : jars) {
            ZipEntry entry = jar.file.getEntry(name);
            if (entry != null) {
                return new Found(jar, entry);
            }
        }
        return null;
    }

    @Override
    protected Class<?> findClass(String name) throws ClassNotFoundException {
        for (String api : APIS) {
            if (name.startsWith(api) && name.indexOf('.', api.length()) < 0) {
                return Class.forName(name, false, JarLoader.class.getClassLoader());
            }
        }
        try {
            Found found = find(name.replace('.', '/') + ".class");
            if (found == null) {
                throw new ClassNotFoundException(name);
            }
            return define(name, read(found), found.jar.source);
        } catch (IOException | IllegalStateException error) {
            // An IllegalStateException means that the operator was removed.
            throw new ClassNotFoundException(name, error);
        }
    }

    private static byte[] read(Found found) throws IOException {
        try (var in = found.jar.file.getInputStream(found.entry)) {
            return in.readAllBytes();
        }
    }

    private Class<?> define(String name, byte[] file, CodeSource source) {
        if (file.length > VERSION_OFFSET + 1) {
            noteVersion((file[VERSION_OFFSET] & 0xFF) << 8 | file[VERSION_OFFSET + 1] & 0xFF);
        }
        byte[] guarded = ExitGuard.guard(file);
        definePackage(name);
        return defineClass(name, guarded, 0, guarded.length, source);
    }

    private void definePackage(String className) {
        int end = className.lastIndexOf('.');
        String name = end < 0 ? "" : className.substring(0, end);
        if (end >= 0 && getDefinedPackage(name) == null) {
            try {
                definePackage(name, null, null, null, null, null, null, null);
            } catch (IllegalArgumentException defined) {
                // Another thread has defined the package first.
                return;
            }
        }
    }

    /** Reads a resource without the cache of JAR connections, which would outlive this loader. */
    @Override
    public InputStream getResourceAsStream(String name) {
        InputStream ofPlatform = getParent().getResourceAsStream(name);
        Found found = find(name);
        if (ofPlatform != null || found == null) {
            return ofPlatform;
        }
        try {
            return found.jar.file.getInputStream(found.entry);
        } catch (IOException error) {
            return null;
        }
    }

    @Override
    protected URL findResource(String name) {
        Found found = find(name);
        return found == null ? null : resource(found.jar, found.entry);
    }

    @Override
    protected Enumeration<URL> findResources(String name) {
        List<URL> found = new ArrayList<>();
        for (Jar jar : jars) {
            ZipEntry entry = jar.file.getEntry(name);
            if (entry != null) {
                found.add(resource(jar, entry));
            }
        }
        return Collections.enumeration(found);
    }

    @SuppressWarnings("deprecation") // Java 17 has no other constructor for jar URLs.
    private static URL resource(Jar jar, ZipEntry entry) {
        try {
            return new URL("jar:" + jar.url + "!/" + entry.getName());
        } catch (MalformedURLException error) {
            throw new IllegalStateException(error);
        }
    }
}
