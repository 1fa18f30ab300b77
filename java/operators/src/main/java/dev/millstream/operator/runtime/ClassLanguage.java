package dev.millstream.operator.runtime;

import dev.millstream.collector.Collector;
import dev.millstream.operator.BatchOperator;
import dev.millstream.operator.Operator;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.zip.ZipException;

/** Operators that are classes in a jar. */
final class ClassLanguage {
    /** The class file version of Java N is N + 44. */
    private static final int VERSION_BASE = 44;

    private ClassLanguage() {}

    /** Loads the class of an operator. */
    static LoadedOperator load(OperatorSpec spec) throws CompileException {
        JarLoader loader = open(spec);
        try {
            Constructor<?> constructor = constructor(spec, loader, Operator.class, BatchOperator.class);
            return new LoadedOperator(spec, List.of(new ClassRule(spec, constructor::newInstance)), loader);
        } catch (CompileException | RuntimeException | Error error) {
            loader.close();
            throw error;
        }
    }

    private static JarLoader open(OperatorSpec spec) throws CompileException {
        check(spec, "an operator");
        return open(List.of(spec.jar()));
    }

    /** Checks that the specification names a jar and a class. */
    static void check(OperatorSpec spec, String subject) throws CompileException {
        if (spec.jar() == null || spec.className() == null) {
            throw fault(subject + " with `language: class` needs a jar and a class");
        }
    }

    /** Opens jars. */
    static JarLoader open(List<String> jars) throws CompileException {
        JarLoader loader = new JarLoader("operator " + Path.of(jars.get(0)).getFileName());
        try {
            for (String jar : jars) {
                add(loader, Path.of(jar));
            }
            return loader;
        } catch (CompileException | RuntimeException | Error error) {
            loader.close();
            throw error;
        }
    }

    private static void add(JarLoader loader, Path jar) throws CompileException {
        if (!Files.exists(jar)) {
            throw fault("the JVM cannot find or read the jar " + jar + "; relative paths start at the agent's working directory");
        }
        try {
            loader.add(jar);
        } catch (ZipException error) {
            throw fault(jar + " is not a jar: " + error.getMessage());
        } catch (IOException error) {
            throw fault("cannot read " + jar + ": " + error);
        }
    }

    /** Returns the constructor of a class that implements one of the interfaces. */
    static Constructor<?> constructor(OperatorSpec spec, JarLoader loader, Class<?>... interfaces) throws CompileException {
        String name = spec.className();
        try {
            Class<?> type = loader.loadClass(name);
            if (Arrays.stream(interfaces).noneMatch(each -> each.isAssignableFrom(type))) {
                throw fault("class " + name + implementsNone(interfaces));
            }
            if (!Modifier.isPublic(type.getModifiers()) || Modifier.isAbstract(type.getModifiers())) {
                throw fault("class " + name + " must be public and not abstract");
            }
            return type.getConstructor();
        } catch (ClassNotFoundException error) {
            throw fault("class " + name + " is not in " + spec.jar());
        } catch (NoSuchMethodException error) {
            throw fault("class " + name + " has no public constructor without parameters");
        } catch (UnsupportedClassVersionError error) {
            throw fault(newer(name, loader, error));
        } catch (NoClassDefFoundError error) {
            boolean isCollector = List.of(interfaces).contains(Collector.class);
            throw fault(isCollector ? needs(name, error) : "class " + name + " needs class " + missing(error) + ", which is not in " + spec.jar());
        } catch (LinkageError error) {
            throw fault("class " + name + " cannot be loaded: " + error);
        }
    }

    private static String implementsNone(Class<?>... interfaces) {
        String names = Arrays.stream(interfaces).map(Class::getName).collect(Collectors.joining(" nor "));
        return (interfaces.length == 1 ? " does not implement " : " implements neither ") + names;
    }

    private static String newer(String name, JarLoader loader, UnsupportedClassVersionError error) {
        int version = loader.newestVersion() - VERSION_BASE;
        int running = Runtime.version().feature();
        return version > running ? "class " + name + " needs Java " + version + ", but Java " + running + " runs" : error.toString();
    }

    /** Returns the error message for a collector that needs a class that is in no jar. */
    static String needs(String name, NoClassDefFoundError error) {
        return name + " needs class " + missing(error) + ", which is in none of its jars; add the jar that contains this class to `jars`";
    }

    private static String missing(NoClassDefFoundError error) {
        return String.valueOf(error.getMessage()).replace('/', '.');
    }

    private static CompileException fault(String message) {
        return new CompileException(message, null, 0, 0);
    }
}
