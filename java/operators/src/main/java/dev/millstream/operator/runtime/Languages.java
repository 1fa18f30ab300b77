package dev.millstream.operator.runtime;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** The languages of rules, which are loaded at their first use. */
final class Languages {
    private static final Map<String, String> CLASSES = Map.of(
            "groovy", "dev.millstream.operator.groovy.GroovyLanguage",
            "aviator", "dev.millstream.operator.aviator.AviatorLanguage");

    private final Map<String, Language> loaded = new ConcurrentHashMap<>();

    /**
     * Compiles an operator.
     *
     * @throws CompileException if the source or the jar is invalid
     */
    LoadedOperator load(OperatorSpec spec) throws CompileException {
        if (spec.language().equals("class")) {
            return ClassLanguage.load(spec);
        }
        Language language = language(spec.language());
        CompiledRule[] rules = new CompiledRule[spec.rules().size()];
        for (int at = 0; at < rules.length; at++) {
            rules[at] = language.compile(spec.rules().get(at), spec);
        }
        return new LoadedOperator(spec.withoutCompiled(), List.of(rules), null);
    }

    /**
     * Compiles a collector script.
     *
     * @param jars finds the classes in the collector's jars; null if there are no jars
     * @throws CompileException if the script is invalid
     */
    CompiledCollector compileCollector(RuleSource source, CollectorSpec spec, ClassLoader jars) throws CompileException {
        String name = spec.code().language();
        if (!name.equals("groovy")) {
            throw new CompileException("a collector does not support the language '" + name + "'; use groovy or class", null, 0, 0);
        }
        return ((CollectorLanguage) language(name)).compileCollector(source, spec, jars);
    }

    private Language language(String name) throws CompileException {
        Language known = loaded.get(name);
        if (known != null) {
            return known;
        }
        String className = CLASSES.get(name);
        if (className == null) {
            throw new CompileException("unknown language '" + name + "': use groovy, aviator or class", null, 0, 0);
        }
        try {
            Language created = (Language) Class.forName(className).getConstructor().newInstance();
            loaded.put(name, created);
            return created;
        } catch (ReflectiveOperationException | LinkageError error) {
            throw new CompileException("cannot load language '" + name + "': " + Thrown.text(error), null, 0, 0);
        }
    }
}
