package dev.millstream.operator.runtime;

import java.io.IOException;
import java.io.InputStream;
import java.net.MalformedURLException;
import java.net.URL;
import java.nio.file.Path;
import java.security.CodeSource;
import java.security.SecureClassLoader;
import java.security.cert.Certificate;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.jar.JarFile;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

/**
 * Loads the classes of a jar. They see the JDK and the API of operators, but nothing else of the agent.
 *
 * <p>Calls that would end the process are replaced, see {@link ExitGuard}.
 */
final class JarLoader extends SecureClassLoader {
    private static final String API = "dev.millstream.operator.";
    private static final int VERSION_OFFSET = 6;

    static {
        registerAsParallelCapable();
    }

    private final JarFile jar;
    private final URL url;
    private final CodeSource source;
    private int newestVersion;

    JarLoader(Path path) throws IOException {
        super("operator " + path.getFileName(), ClassLoader.getPlatformClassLoader());
        jar = new JarFile(path.toFile(), false, ZipFile.OPEN_READ, JarFile.runtimeVersion());
        url = path.toUri().toURL();
        source = new CodeSource(url, (Certificate[]) null);
    }

    /** Returns the newest version of the class files that were read. */
    synchronized int newestVersion() {
        return newestVersion;
    }

    private synchronized void noteVersion(int version) {
        newestVersion = Math.max(newestVersion, version);
    }

    /** Closes the jar. Classes that are loaded can still run, but load no others. */
    void close() {
        try {
            jar.close();
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    protected Class<?> findClass(String name) throws ClassNotFoundException {
        if (name.startsWith(API) && name.indexOf('.', API.length()) < 0) {
            return Class.forName(name, false, JarLoader.class.getClassLoader());
        }
        byte[] file = read(name);
        if (file.length > VERSION_OFFSET + 1) {
            noteVersion((file[VERSION_OFFSET] & 0xFF) << 8 | file[VERSION_OFFSET + 1] & 0xFF);
        }
        byte[] guarded = ExitGuard.guard(file);
        definePackage(name);
        return defineClass(name, guarded, 0, guarded.length, source);
    }

    private byte[] read(String name) throws ClassNotFoundException {
        try {
            ZipEntry entry = jar.getEntry(name.replace('.', '/') + ".class");
            if (entry == null) {
                throw new ClassNotFoundException(name);
            }
            try (var in = jar.getInputStream(entry)) {
                return in.readAllBytes();
            }
        } catch (IOException | IllegalStateException error) {
            // The latter: the operator was removed.
            throw new ClassNotFoundException(name, error);
        }
    }

    private void definePackage(String className) {
        int end = className.lastIndexOf('.');
        String name = end < 0 ? "" : className.substring(0, end);
        if (end >= 0 && getDefinedPackage(name) == null) {
            try {
                definePackage(name, null, null, null, null, null, null, null);
            } catch (IllegalArgumentException defined) {
                // Another thread was faster.
                return;
            }
        }
    }

    /** Reads a resource without the cache of JAR connections, which would outlive this loader. */
    @Override
    public InputStream getResourceAsStream(String name) {
        InputStream ofPlatform = getParent().getResourceAsStream(name);
        ZipEntry entry = jar.getEntry(name);
        if (ofPlatform != null || entry == null) {
            return ofPlatform;
        }
        try {
            return jar.getInputStream(entry);
        } catch (IOException error) {
            return null;
        }
    }

    @Override
    protected URL findResource(String name) {
        ZipEntry entry = jar.getEntry(name);
        return entry == null ? null : resource(entry.getName());
    }

    @Override
    protected Enumeration<URL> findResources(String name) {
        URL found = findResource(name);
        return Collections.enumeration(found == null ? List.of() : List.of(found));
    }

    @SuppressWarnings("deprecation") // URLs of jars have no other constructor in Java 17.
    private URL resource(String name) {
        try {
            return new URL("jar:" + url + "!/" + name);
        } catch (MalformedURLException error) {
            return null;
        }
    }
}
