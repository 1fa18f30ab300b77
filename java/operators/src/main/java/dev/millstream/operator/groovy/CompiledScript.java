package dev.millstream.operator.groovy;

import java.util.List;

/**
 * A script's classes, which are not loaded yet, and the results of the compilation.
 *
 * @param className the name of the script's class
 * @param classes the script's class, and the classes that the script declares
 * @param fields the distinct field names in the source
 * @param removedCalls the number of removed calls
 * @param dynamicCalls the number of calls and accesses that are resolved at run time
 */
record CompiledScript(String className, List<ClassFile> classes, List<String> fields, int removedCalls, int dynamicCalls) {
    /**
     * A class.
     *
     * @param name the class name
     * @param bytes the class file
     */
    record ClassFile(String name, byte[] bytes) {}
}
