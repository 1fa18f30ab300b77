package dev.millstream.operator.groovy;

import dev.millstream.operator.runtime.CompileException;
import java.util.List;
import org.codehaus.groovy.control.CompilationFailedException;
import org.codehaus.groovy.control.MultipleCompilationErrorsException;
import org.codehaus.groovy.control.messages.ExceptionMessage;
import org.codehaus.groovy.control.messages.Message;
import org.codehaus.groovy.control.messages.SimpleMessage;
import org.codehaus.groovy.control.messages.SyntaxErrorMessage;
import org.codehaus.groovy.syntax.SyntaxException;

/** Extracts information from the errors of Groovy's compiler. */
final class CompileErrors {
    private static final String TYPING = "[Static type checking]";

    private CompileErrors() {}

    /** Returns whether Groovy, rather than this package, has reported all errors. */
    static boolean withoutRefusal(CompilationFailedException failure) {
        return failure instanceof MultipleCompilationErrorsException many && errors(many).stream().noneMatch(CompileErrors::isRefusal);
    }

    /** Throws the OutOfMemoryError that has caused a failure, if there is one. Java wraps this error while it links a class. */
    static void throwLackOfMemory(Throwable failure) {
        for (Throwable cause = failure.getCause(); cause != null; cause = cause.getCause()) {
            if (cause instanceof OutOfMemoryError error) {
                throw error;
            }
        }
    }

    /** Returns the first refusal, or else the first error. */
    static CompileException convert(CompilationFailedException failure, String rule) {
        if (!(failure instanceof MultipleCompilationErrorsException many)) {
            // The parser catches an OutOfMemoryError and reports that parsing failed.
            throwLackOfMemory(failure);
            return new CompileException(oneLine(failure.getMessage()), rule, 0, 0);
        }
        Message chosen = null;
        for (Message message : errors(many)) {
            if (chosen == null || (isRefusal(message) && !isRefusal(chosen))) {
                chosen = message;
            }
        }
        SyntaxException syntax = syntax(chosen);
        if (syntax != null) {
            return new CompileException(oneLine(syntax.getOriginalMessage()), rule, syntax.getStartLine(), syntax.getStartColumn());
        }
        return new CompileException(text(chosen), rule, 0, 0);
    }

    private static List<? extends Message> errors(MultipleCompilationErrorsException failure) {
        List<? extends Message> errors = failure.getErrorCollector().getErrors();
        return errors == null ? List.of() : errors;
    }

    private static boolean isRefusal(Message message) {
        return syntax(message) instanceof Refusal;
    }

    private static SyntaxException syntax(Message message) {
        return message instanceof SyntaxErrorMessage error ? error.getCause() : null;
    }

    private static String text(Message message) {
        if (message instanceof SimpleMessage simple) {
            return oneLine(simple.getMessage());
        }
        return message instanceof ExceptionMessage exception ? oneLine(exception.getCause().toString()) : "unknown error";
    }

    private static String oneLine(String message) {
        return String.valueOf(message).replace(TYPING + " - ", "").replaceAll("\\s*\\R\\s*", " ").trim();
    }
}
