package dev.millstream.operator.groovy;

import groovy.lang.GroovyClassLoader;
import java.net.URL;
import java.util.Collections;
import java.util.Enumeration;
import org.codehaus.groovy.control.CompilerConfiguration;

/** Finds classes for the compiler. It has no sources, no transformations and no classes of its own, so that all rules share it. */
final class CompileLoader extends GroovyClassLoader {
    CompileLoader(ClassLoader parent, CompilerConfiguration configuration) {
        super(parent, configuration, false);
        setResourceLoader(name -> null);
    }

    @Override
    public Enumeration<URL> getResources(String name) {
        return Collections.emptyEnumeration();
    }
}
