package dev.millstream.operator.groovy;

import groovy.lang.GroovyClassLoader;
import java.net.URL;
import java.util.Collections;
import java.util.Enumeration;
import java.util.Set;
import org.codehaus.groovy.control.CompilerConfiguration;

/** Finds classes for the compiler. All rules can share a loader, because it contains no sources, no transformations and no classes. */
final class CompileLoader extends GroovyClassLoader {
    static final CompilerConfiguration CONFIGURATION = configuration();

    CompileLoader(ClassLoader parent) {
        super(parent, CONFIGURATION, false);
        setResourceLoader(name -> null);
    }

    private static CompilerConfiguration configuration() {
        CompilerConfiguration configuration = new CompilerConfiguration(CompilerConfiguration.DEFAULT);
        configuration.setDisabledGlobalASTTransformations(Set.of("groovy.grape.GrabAnnotationTransformation"));
        configuration.setTargetBytecode(CompilerConfiguration.JDK17);
        return configuration;
    }

    @Override
    public Enumeration<URL> getResources(String name) {
        return Collections.emptyEnumeration();
    }
}
