package dev.millstream.operator.groovy;

/** Rules that must not compile, separated by lines of three dashes. */
final class Attacks {
    static final String ALL = """
            System.exit(1)
            ---
            java.lang.System.exit(0)
            ---
            import static java.lang.System.exit
            exit(1)
            ---
            import static java.lang.System.*
            exit(1)
            ---
            import java.lang.System as Math2
            Math2.exit(1)
            ---
            Runtime.runtime.exec('id')
            ---
            Runtime.getRuntime().halt(1)
            ---
            'id'.execute()
            ---
            ['id', '-u'].execute()
            ---
            def s = 'id'; s.execute()
            ---
            row.message.execute()
            ---
            row.cmd.execute()
            ---
            Object o = 'id'
            o.execute()
            ---
            "${'id'}".execute()
            ---
            row.s."${'exe' + 'cute'}"()
            ---
            def m = 'execute'
            row.s."$m"()
            ---
            row.s.invokeMethod('execute', null)
            ---
            row.s.&execute
            ---
            def f = 'id'.&execute
            f()
            ---
            String::execute
            ---
            new ProcessBuilder('id').start()
            ---
            new Thread({ }).start()
            ---
            Thread.start { }
            ---
            Thread.sleep(1000)
            ---
            sleep(1000)
            ---
            new File('/etc/passwd').text
            ---
            '/etc/passwd' as File
            ---
            File f = ['/etc/passwd']
            ---
            new URL('http://example.org').text
            ---
            'http://example.org'.toURL().text
            ---
            new URI('file:///etc/passwd').toURL().text
            ---
            def u = row.u; u.toURL().text
            ---
            java.nio.file.Files.readString(java.nio.file.Path.of('/etc/passwd'))
            ---
            new Socket('localhost', 80)
            ---
            'x'.class
            ---
            'x'.getClass()
            ---
            row.x.getClass().forName('java.lang.Runtime')
            ---
            [].metaClass
            ---
            String.metaClass.foo = { }
            ---
            row.x.metaClass.foo = 1
            ---
            Class.forName('java.lang.Runtime')
            ---
            Class c = String
            ---
            String.classLoader
            ---
            String.getClassLoader()
            ---
            this.class.classLoader
            ---
            getClass().classLoader
            ---
            this.binding
            ---
            binding.variables
            ---
            getBinding()
            ---
            evaluate('1')
            ---
            this.evaluate('1')
            ---
            Eval.me('1')
            ---
            new GroovyShell().evaluate('1')
            ---
            new GroovyClassLoader().parseClass('class A {}')
            ---
            run(new java.io.File('x'), [] as String[])
            ---
            @Grab('a:b:1')
            import java.util.List
            row.x = 1
            ---
            @groovy.transform.ASTTest(value = { System.exit(1) })
            def f() { 1 }
            ---
            import groovy.transform.ASTTest as Field
            @Field(value = { assert false })
            def x = 1
            ---
            @groovy.transform.CompileStatic(extensions = 'evil.groovy')
            def f() { 1 }
            ---
            @groovy.lang.Newify(File)
            def f() { File('x') }
            ---
            @groovy.util.logging.Log
            class A { }
            ---
            trait T { }
            class A implements T { }
            ---
            use(groovy.time.TimeCategory) { }
            ---
            Object.mixin(String)
            ---
            row.x.dump()
            ---
            'x'.with { execute() }
            ---
            'x'.with { getClass() }
            ---
            [1, 'id']*.execute()
            ---
            row.list*.execute()
            ---
            row.list*.class
            ---
            { -> }.delegate
            ---
            { -> owner }()
            ---
            { -> delegate.x }()
            ---
            { -> thisObject.binding }()
            ---
            this.@current
            ---
            row.x.@value
            ---
            class A extends GroovyClassLoader { }
            ---
            class A { protected void finalize() { } }
            ---
            class A { Object invokeMethod(String n, Object a) { 1 } }
            ---
            class A implements java.lang.reflect.InvocationHandler { Object invoke(Object p, java.lang.reflect.Method m, Object[] a) { 1 } }
            ---
            synchronized (this) { }
            ---
            this.wait()
            ---
            row.x.wait()
            ---
            row.x.notifyAll()
            ---
            [1].parallelStream().count()
            ---
            java.util.stream.Stream.of(1).parallel().count()
            ---
            Locale.setDefault(Locale.US)
            ---
            Locale.default = Locale.US
            ---
            TimeZone.setDefault(null)
            ---
            Integer.getInteger('x')
            ---
            new Exception().stackTrace
            ---
            def p = System.&exit
            ---
            [run: { }] as java.util.concurrent.Callable
            ---
            ({ } as java.util.concurrent.Callable)
            ---
            Closure c = ProcessBuilder.&new
            ---
            def x = [ProcessBuilder]
            ---
            row.x instanceof Thread
            ---
            try { } catch (java.io.IOException e) { }
            ---
            def f(File x) { }
            ---
            File f() { }
            ---
            java.io.File[] a = new java.io.File[1]
            ---
            dev.millstream.operator.groovy.Access.construct(Object, [] as Object[])
            ---
            dev.millstream.operator.groovy.Operators.getAt('x', 'class')
            ---
            currentRow()
            ---
            process(null)
            ---
            NO_BINDING
            ---
            setProperty('x', 1)
            ---
            getProperty('binding')
            ---
            foo = 1
            ---
            def o = row.x
            o.class.forName('x')
            ---
            switch ('x') { case { it.class }: break }
            ---
            "${'x'.class}"
            ---
            "${-> 'x'.execute()}"
            ---
            [a: 'x'.execute()]
            ---
            @groovy.transform.Field def x = 'id'.execute()
            ---
            class A { def x = 'id'.execute() }
            ---
            class A { static { System.exit(1) } }
            ---
            enum E { A; E() { System.exit(1) } }
            ---
            assert 'id'.execute()
            ---
            for (x in 'id'.execute()) { }
            ---
            return 'id'.execute()
            ---
            throw 'id'.execute()
            ---
            row.x = (Runtime) null
            ---
            new Object() { String toString() { System.exit(1) } }
            ---
            ClassLoader.systemClassLoader
            ---
            Thread.currentThread().contextClassLoader
            ---
            org.codehaus.groovy.runtime.InvokerHelper.invokeMethod('id', 'execute', null)
            ---
            groovy.lang.GroovySystem.metaClassRegistry
            ---
            ''.class.forName('java.lang.Runtime').runtime.exec('id')
            ---
            java.lang.reflect.Array.newInstance(String, 1)
            ---
            javax.script.ScriptEngineManager
            ---
            'x'.newInstance()
            ---
            String.newInstance()
            ---
            java.util.logging.Logger.getLogger('x')
            ---
            java.util.ServiceLoader.load(Runnable)
            ---
            new Timer().schedule({ }, 1)
            ---
            new java.util.Scanner(new java.io.File('x'))
            ---
            'x'.toCharArray().metaClass
            ---
            def (a, b) = ['id'.execute(), 1]
            ---
            package evil
            row.x = 1
            ---
            System.out.println('x')
            ---
            def m(x = 'id'.execute()) { }
            m()
            ---
            def m = { x = 'id'.execute() -> x }
            m()
            ---
            super.evaluate('1')
            ---
            super.binding
            ---
            Object o = String
            o.forName('x')
            ---
            def c = String
            c.classLoader
            ---
            row.s?.class
            ---
            row.s.'class'
            ---
            this.&evaluate
            ---
            { -> 1 }.getOwner()
            ---
            def c = { 1 }
            c.delegate = 'x'
            ---
            def c = { 1 }
            c.setDelegate('x')
            ---
            def c = { 1 }
            c.resolveStrategy = 1
            ---
            def c = { 1 }
            c.rehydrate(1, 2, 3)
            ---
            ((x) -> x.class)(1)
            ---
            def c = { 1 }
            c.getMetaClass()
            ---
            class A { static { System.exit(1) } }
            row.x = 1
            ---
            class A { { System.exit(1) } }
            row.x = 1
            ---
            class A { A() { this(System.exit(1)) }; A(x) { } }
            row.x = 1
            ---
            interface I { default int f() { System.exit(1); 1 } }
            row.x = 1
            ---
            enum E { A { def f() { System.exit(1) } }; def f() { 1 } }
            row.x = 1
            ---
            def c = [1].iterator()
            c.class
            """;

    private Attacks() {}
}
