package dev.millstream.operator.groovy;

import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * The classes and methods that every rule may use, in one place.
 *
 * <p>A class belongs in this list if none of its methods reaches a file, a socket, a process, a thread, the class path or the state of the
 * process. Methods that return an unlisted class cannot be called, so {@code getClass()}, {@code URI.toURL()} and {@code spliterator()}
 * need no entry in {@link #DENIED}.
 */
final class Allowed {
    /** Classes by package. Their nested classes are allowed as well. */
    static final Set<String> CLASSES = names(
            "java.lang", """
            Object String CharSequence StringBuilder StringBuffer Character Boolean Byte Short Integer Long Float Double Number Math
            StrictMath Comparable Iterable Enum Record Void Appendable Cloneable Runnable
            Override Deprecated SuppressWarnings FunctionalInterface SafeVarargs
            Throwable Exception RuntimeException Error AssertionError StackOverflowError IllegalArgumentException IllegalStateException
            ArithmeticException IndexOutOfBoundsException ArrayIndexOutOfBoundsException StringIndexOutOfBoundsException
            ClassCastException NullPointerException NumberFormatException UnsupportedOperationException NegativeArraySizeException
            CloneNotSupportedException""",
            "java.util", """
            AbstractCollection AbstractList AbstractMap AbstractQueue AbstractSequentialList AbstractSet ArrayDeque ArrayList Arrays
            Base64 BitSet Calendar Collection Collections Comparator Currency Date Deque DoubleSummaryStatistics EnumMap EnumSet
            Enumeration GregorianCalendar HashMap HashSet HexFormat IdentityHashMap IntSummaryStatistics Iterator LinkedHashMap
            LinkedHashSet LinkedList List ListIterator Locale LongSummaryStatistics Map NavigableMap NavigableSet Objects Optional
            OptionalDouble OptionalInt OptionalLong PrimitiveIterator PriorityQueue Queue Random RandomAccess SequencedCollection
            SequencedMap SequencedSet Set SimpleTimeZone SortedMap SortedSet Stack StringJoiner StringTokenizer TimeZone TreeMap
            TreeSet UUID Vector
            ConcurrentModificationException EmptyStackException IllegalFormatException InputMismatchException
            MissingFormatArgumentException NoSuchElementException UnknownFormatConversionException""",
            "java.util.concurrent.atomic", "AtomicBoolean AtomicInteger AtomicLong AtomicReference DoubleAdder LongAdder",
            "java.util.regex", "MatchResult Matcher Pattern PatternSyntaxException",
            "java.util.stream", "BaseStream Collector Collectors DoubleStream IntStream LongStream Stream",
            "java.util.function", """
            BiConsumer BiFunction BiPredicate BinaryOperator BooleanSupplier Consumer DoubleBinaryOperator DoubleConsumer
            DoubleFunction DoublePredicate DoubleSupplier DoubleToIntFunction DoubleToLongFunction DoubleUnaryOperator Function
            IntBinaryOperator IntConsumer IntFunction IntPredicate IntSupplier IntToDoubleFunction IntToLongFunction
            IntUnaryOperator LongBinaryOperator LongConsumer LongFunction LongPredicate LongSupplier LongToDoubleFunction
            LongToIntFunction LongUnaryOperator ObjDoubleConsumer ObjIntConsumer ObjLongConsumer Predicate Supplier
            ToDoubleBiFunction ToDoubleFunction ToIntBiFunction ToIntFunction ToLongBiFunction ToLongFunction UnaryOperator""",
            "java.math", "BigDecimal BigInteger MathContext RoundingMode",
            "java.time", """
            Clock DateTimeException DayOfWeek Duration Instant InstantSource LocalDate LocalDateTime LocalTime Month MonthDay
            OffsetDateTime OffsetTime Period Year YearMonth ZoneId ZoneOffset ZonedDateTime""",
            "java.time.chrono", """
            ChronoLocalDate ChronoLocalDateTime ChronoPeriod ChronoZonedDateTime Chronology Era IsoChronology IsoEra""",
            "java.time.format", """
            DateTimeFormatter DateTimeFormatterBuilder DateTimeParseException DecimalStyle FormatStyle ResolverStyle SignStyle
            TextStyle""",
            "java.time.temporal", """
            ChronoField ChronoUnit IsoFields JulianFields Temporal TemporalAccessor TemporalAdjuster TemporalAdjusters
            TemporalAmount TemporalField TemporalQueries TemporalQuery TemporalUnit UnsupportedTemporalTypeException ValueRange
            WeekFields""",
            "java.time.zone", "ZoneOffsetTransition ZoneOffsetTransitionRule ZoneRules ZoneRulesException",
            "java.text", """
            ChoiceFormat DateFormat DateFormatSymbols DecimalFormat DecimalFormatSymbols FieldPosition Format MessageFormat
            Normalizer NumberFormat ParseException ParsePosition SimpleDateFormat""",
            "java.nio.charset", "Charset StandardCharsets UnsupportedCharsetException",
            "java.security", "MessageDigest NoSuchAlgorithmException",
            "java.net", "URI URISyntaxException URLDecoder URLEncoder",
            "java.io", "Serializable UnsupportedEncodingException UncheckedIOException",
            "groovy.lang", """
            Closure EmptyRange GString IntRange MissingMethodException MissingPropertyException NumberRange ObjectRange Range Tuple
            Tuple0 Tuple1 Tuple2 Tuple3 Tuple4 Writable""",
            "groovy.transform", "Field",
            "groovy.json", "JsonBuilder JsonException JsonOutput JsonSlurper JsonSlurperClassic",
            "org.codehaus.groovy.runtime", "GStringImpl",
            "org.codehaus.groovy.runtime.powerassert", "PowerAssertionError",
            "dev.millstream.operator", "Row",
            "dev.millstream.collector", "CollectorContext CollectorStoppedException Events");

    /** Classes with Groovy's additions to Java classes, except the additions to processes, files, sockets and threads. */
    static final Set<String> EXTENSIONS = Set.of(
            "org.codehaus.groovy.runtime.ArrayGroovyMethods",
            "org.codehaus.groovy.runtime.DefaultGroovyMethods",
            "org.codehaus.groovy.runtime.EncodingGroovyMethods",
            "org.codehaus.groovy.runtime.StreamGroovyMethods",
            "org.codehaus.groovy.runtime.StringGroovyMethods",
            "org.codehaus.groovy.vmplugin.v8.PluginDefaultGroovyMethods",
            "org.codehaus.groovy.vmplugin.v9.PluginDefaultGroovyMethods",
            "org.codehaus.groovy.vmplugin.v10.PluginDefaultGroovyMethods");

    /** Methods of allowed classes that print, wait, start threads, or read or change the state of the process or a class. */
    static final Set<String> DENIED = Set.of(
            "java.lang.Object#wait", "java.lang.Object#notify", "java.lang.Object#notifyAll", "java.lang.Object#finalize",
            "java.lang.Boolean#getBoolean", "java.lang.Integer#getInteger", "java.lang.Long#getLong",
            "java.lang.Throwable#printStackTrace", "java.lang.Throwable#setStackTrace", "java.lang.Throwable#fillInStackTrace",
            "java.util.Arrays#parallelPrefix", "java.util.Arrays#parallelSetAll", "java.util.Arrays#parallelSort",
            "java.util.Collection#parallelStream", "java.util.stream.BaseStream#parallel",
            "java.util.Locale#setDefault", "java.util.TimeZone#setDefault");

    /**
     * Method names that are refused in every class. Methods with these names do the same in Groovy's extensions, or call another method by
     * name.
     */
    static final Set<String> DENIED_NAMES = Set.of(
            "addShutdownHook", "dump", "getMetaClass", "getMetaPropertyValues", "getProperties", "getProperty", "hasProperty",
            "invokeMethod",
            "metaClass", "mixin", "newInstance", "print", "printf", "println", "respondsTo", "runAfter", "setMetaClass", "setProperty",
            "sleep", "use", "withTraits");

    /** The class whose methods are refused unless {@link #CLOSURE_METHODS} contains them. */
    static final String CLOSURE = "groovy.lang.Closure";

    /** The closure methods that a rule may call. The other methods change where a closure looks up names. */
    static final Set<String> CLOSURE_METHODS = Set.of(
            "call", "curry", "rcurry", "ncurry", "andThen", "andThenSelf", "compose", "composeSelf", "memoize", "memoizeAtMost",
            "leftShift", "rightShift", "trampoline", "isCase", "run", "getMaximumNumberOfParameters");

    /** The functions that every rule has. */
    static final Set<String> SCRIPT_METHODS = Set.of("between", "drop", "emit");

    private Allowed() {}

    /** Returns full class names. The arguments alternate between a package and the names of its classes. */
    private static Set<String> names(String... packagesAndNames) {
        Set<String> all = new HashSet<>();
        for (int at = 0; at < packagesAndNames.length; at += 2) {
            for (String name : List.of(packagesAndNames[at + 1].trim().split("\\s+"))) {
                all.add(packagesAndNames[at] + '.' + name);
            }
        }
        return Set.copyOf(all);
    }
}
