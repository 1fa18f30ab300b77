package dev.millstream.operator.groovy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.codehaus.groovy.control.CompilationFailedException;
import org.codehaus.groovy.control.Phases;
import org.junit.jupiter.api.Test;

class CompileErrorsTest {
    private static CompilationFailedException failure(Throwable cause) {
        return new CompilationFailedException(Phases.PARSING, null, cause);
    }

    @Test
    void aFailureForMemoryIsOne() {
        OutOfMemoryError error = new OutOfMemoryError("Metaspace");
        assertEquals(error, assertThrows(OutOfMemoryError.class, () -> CompileErrors.convert(failure(error), "a")));
    }

    @Test
    void aLackOfMemoryIsFoundBehindTheErrorOfAClass() {
        OutOfMemoryError error = new OutOfMemoryError("Java heap space");
        BootstrapMethodError failure = new BootstrapMethodError("of a call site", new IllegalStateException(error));
        assertEquals(error, assertThrows(OutOfMemoryError.class, () -> CompileErrors.throwLackOfMemory(failure)));
        CompileErrors.throwLackOfMemory(new BootstrapMethodError("of a call site"));
    }

    @Test
    void anotherFailureHasItsMessage() {
        assertEquals("parsing failed", CompileErrors.convert(failure(new IllegalStateException("x")), "a").getMessage());
    }
}
