package dev.millstream.operator.runtime;

import dev.millstream.collector.Collector;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Loads collectors. */
final class CollectorLoader {
    private static final long CREATE_SECONDS = 10;

    private final Languages languages;

    CollectorLoader(Languages languages) {
        this.languages = languages;
    }

    /**
     * Compiles a collector, and creates its instance.
     *
     * @throws CompileException if the source or one of the jars is invalid
     */
    LoadedCollector load(CollectorSpec spec) throws CompileException {
        boolean isClass = spec.code().language().equals("class");
        if (isClass) {
            ClassLanguage.check(spec.code(), "a collector");
        }
        List<String> jars = new ArrayList<>(spec.jars());
        if (isClass) {
            jars.add(0, spec.code().jar());
        }
        JarLoader loader = jars.isEmpty() ? null : ClassLanguage.open(jars);
        try {
            return isClass ? ofClass(spec, loader) : ofScript(spec, loader);
        } catch (CompileException | RuntimeException | Error error) {
            if (loader != null) {
                loader.close();
            }
            throw error;
        }
    }

    private static LoadedCollector ofClass(CollectorSpec spec, JarLoader loader) throws CompileException {
        Constructor<?> constructor = ClassLanguage.constructor(spec.code(), loader, Collector.class);
        String name = spec.code().className();
        return new LoadedCollector(spec, create(constructor, name, null, loader), name, loader);
    }

    private LoadedCollector ofScript(CollectorSpec spec, JarLoader loader) throws CompileException {
        List<RuleSource> sources = spec.code().rules();
        if (sources.size() != 1) {
            throw new CompileException("a collector must have exactly one script, not " + sources.size(), null, 0, 0);
        }
        RuleSource source = sources.get(0);
        CompiledCollector script = languages.compileCollector(source, spec, loader);
        try {
            Collector created = create(script.type().getConstructor(), source.name(), source.name(), loader);
            LoadedCollector loaded = new LoadedCollector(spec.withoutCompiled(), created, source.name(), loader);
            loaded.keepCompiled(script.compiled());
            return loaded;
        } catch (NoSuchMethodException error) {
            throw new CompileException("the collector cannot be created: " + error, source.name(), 0, 0);
        }
    }

    /** Calls a constructor on another thread, because this thread must not wait for user code without a limit. */
    private static Collector create(Constructor<?> constructor, String name, String rule, ClassLoader loader) throws CompileException {
        FutureTask<Object> task = new FutureTask<>(constructor::newInstance);
        Thread thread = new Thread(null, task, "collector-create", 0, false);
        thread.setDaemon(true);
        thread.setContextClassLoader(loader == null ? CollectorLoader.class.getClassLoader() : loader);
        thread.start();
        try {
            return (Collector) task.get(CREATE_SECONDS, TimeUnit.SECONDS);
        } catch (TimeoutException error) {
            thread.interrupt();
            throw new CompileException(
                    "the constructor of " + name + " did not return within " + CREATE_SECONDS + " s; connect in open or collect instead",
                    rule, 0, 0);
        } catch (InterruptedException error) {
            throw new CompileException("the thread was interrupted while it created " + name, rule, 0, 0);
        } catch (ExecutionException error) {
            Throwable thrown = error.getCause() instanceof InvocationTargetException wrapper ? wrapper.getCause() : error.getCause();
            if (thrown instanceof NoClassDefFoundError missing) {
                throw new CompileException(ClassLanguage.needs(name, missing), rule, 0, 0);
            }
            int line = Thrown.line(thrown, constructor.getDeclaringClass().getName());
            throw new CompileException("the constructor of " + name + " failed: " + Thrown.text(thrown), rule, line, 0);
        }
    }
}
