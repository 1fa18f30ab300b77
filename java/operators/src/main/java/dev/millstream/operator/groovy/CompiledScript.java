package dev.millstream.operator.groovy;

import java.util.List;

/**
 * The classes of a script, which are not loaded yet, and what its compilation found.
 *
 * @param className the name of the class of the script itself
 * @param classes it, and those that it declares
 * @param fields the names of fields that appear in the source, each once
 * @param removedCalls the number of calls that were removed
 * @param dynamicCalls how many calls and accesses are resolved when they run
 */
record CompiledScript(String className, List<ClassFile> classes, List<String> fields, int removedCalls, int dynamicCalls) {
    /**
     * A class.
     *
     * @param name its name
     * @param bytes its class file
     */
    record ClassFile(String name, byte[] bytes) {}
}
