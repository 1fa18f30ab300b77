package dev.millstream.operator.runtime;

import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Handle;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/** Replaces calls that end the process with calls that throw a SecurityException. Prevents accidents, not attacks. */
final class ExitGuard extends ClassVisitor {
    private static final String HELPER = "millstream$exit";
    private static final String EXIT = "(I)V";
    private static final String EXIT_OF_RUNTIME = "(Ljava/lang/Runtime;I)V";
    private static final String MESSAGE = "operators must not exit the process";
    private static final String EXCEPTION = "java/lang/SecurityException";

    private String className;
    private boolean isInterface;
    private boolean needsExit;
    private boolean needsExitOfRuntime;

    private ExitGuard(ClassWriter writer) {
        super(Opcodes.ASM9, writer);
    }

    /** Returns the class file to load. */
    static byte[] guard(byte[] file) {
        ClassReader reader;
        try {
            reader = new ClassReader(file);
        } catch (RuntimeException error) {
            // The file is broken or too new. The JVM reports this when it loads the class.
            return file;
        }
        ClassWriter writer = new ClassWriter(reader, 0);
        reader.accept(new ExitGuard(writer), 0);
        return writer.toByteArray();
    }

    @Override
    public void visit(int version, int access, String name, String signature, String superName, String[] interfaces) {
        className = name;
        isInterface = (access & Opcodes.ACC_INTERFACE) != 0;
        super.visit(version, access, name, signature, superName, interfaces);
    }

    @Override
    public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] exceptions) {
        return new Calls(super.visitMethod(access, name, descriptor, signature, exceptions));
    }

    @Override
    public void visitEnd() {
        if (needsExit) {
            addHelper(EXIT, 1);
        }
        if (needsExitOfRuntime) {
            addHelper(EXIT_OF_RUNTIME, 2);
        }
        super.visitEnd();
    }

    private void addHelper(String descriptor, int locals) {
        int access = Opcodes.ACC_STATIC | Opcodes.ACC_SYNTHETIC | (isInterface ? Opcodes.ACC_PUBLIC : Opcodes.ACC_PRIVATE);
        MethodVisitor method = super.visitMethod(access, HELPER, descriptor, null, null);
        method.visitCode();
        method.visitTypeInsn(Opcodes.NEW, EXCEPTION);
        method.visitInsn(Opcodes.DUP);
        method.visitLdcInsn(MESSAGE);
        method.visitMethodInsn(Opcodes.INVOKESPECIAL, EXCEPTION, "<init>", "(Ljava/lang/String;)V", false);
        method.visitInsn(Opcodes.ATHROW);
        method.visitMaxs(3, locals);
        method.visitEnd();
    }

    /** Returns the descriptor of the method to call instead, or null if the call does not end the process. */
    private String replacement(String owner, String name, String descriptor) {
        if (!descriptor.equals(EXIT)) {
            return null;
        }
        if (owner.equals("java/lang/System") && name.equals("exit")) {
            needsExit = true;
            return EXIT;
        }
        if (owner.equals("java/lang/Runtime") && (name.equals("exit") || name.equals("halt"))) {
            needsExitOfRuntime = true;
            return EXIT_OF_RUNTIME;
        }
        return null;
    }

    /** Replaces the calls in a method. */
    private final class Calls extends MethodVisitor {
        Calls(MethodVisitor next) {
            super(Opcodes.ASM9, next);
        }

        @Override
        public void visitMethodInsn(int opcode, String owner, String name, String descriptor, boolean isOfInterface) {
            String instead = replacement(owner, name, descriptor);
            if (instead == null) {
                super.visitMethodInsn(opcode, owner, name, descriptor, isOfInterface);
            } else {
                super.visitMethodInsn(Opcodes.INVOKESTATIC, className, HELPER, instead, isInterface);
            }
        }

        @Override
        public void visitInvokeDynamicInsn(String name, String descriptor, Handle bootstrap, Object... arguments) {
            Object[] replaced = arguments.clone();
            for (int at = 0; at < replaced.length; at++) {
                if (replaced[at] instanceof Handle handle) {
                    String instead = replacement(handle.getOwner(), handle.getName(), handle.getDesc());
                    replaced[at] = instead == null
                            ? handle
                            : new Handle(Opcodes.H_INVOKESTATIC, className, HELPER, instead, isInterface);
                }
            }
            super.visitInvokeDynamicInsn(name, descriptor, bootstrap, replaced);
        }
    }
}
