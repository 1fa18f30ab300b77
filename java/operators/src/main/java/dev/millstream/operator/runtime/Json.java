package dev.millstream.operator.runtime;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamWriteConstraints;
import com.fasterxml.jackson.core.exc.StreamConstraintsException;
import com.fasterxml.jackson.core.util.ByteArrayBuilder;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;

/** Converts nested values from and to JSON. */
final class Json {
    private static final int NUMBER_DIGITS_MAX = 10_000;
    private static final JsonFactory FACTORY = JsonFactory.builder()
            .streamReadConstraints(StreamReadConstraints.builder()
                    .maxStringLength((int) Layout.CELL_LENGTH_MASK)
                    .maxNameLength((int) Layout.CELL_LENGTH_MASK)
                    .maxNumberLength(NUMBER_DIGITS_MAX)
                    .build())
            // Keys are data, so a shared table of keys would only grow.
            .disable(JsonFactory.Feature.CANONICALIZE_FIELD_NAMES)
            .build();
    private static final JsonFactory EVENT_FACTORY = FACTORY.rebuild()
            .streamWriteConstraints(StreamWriteConstraints.builder().maxNestingDepth(ChunkLayout.DEPTH_MAX).build())
            .build();

    private Json() {}

    /** Parses the first bytes of an array as an object, an array, or another value. */
    static Object parse(byte[] json, int length) {
        try {
            return parse(FACTORY.createParser(json, 0, length));
        } catch (JsonProcessingException error) {
            return parse(new String(json, 0, length, StandardCharsets.UTF_8));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Parses a text. */
    static Object parse(String json) {
        try {
            return parse(FACTORY.createParser(json));
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException("invalid JSON: " + error.getOriginalMessage(), error);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private static Object parse(JsonParser parser) throws IOException {
        try (parser) {
            parser.nextToken();
            return value(parser);
        }
    }

    private static Object value(JsonParser parser) throws IOException {
        JsonToken token = parser.currentToken();
        if (token == null) {
            throw new IllegalArgumentException("invalid JSON: unexpected end of input");
        }
        return switch (token) {
            case START_OBJECT -> object(parser);
            case START_ARRAY -> array(parser);
            case VALUE_STRING -> parser.getText();
            case VALUE_NUMBER_INT -> integer(parser);
            case VALUE_NUMBER_FLOAT -> (Object) parser.getDoubleValue();
            case VALUE_TRUE -> Boolean.TRUE;
            case VALUE_FALSE -> Boolean.FALSE;
            default -> null;
        };
    }

    private static Object integer(JsonParser parser) throws IOException {
        return parser.getNumberType() == JsonParser.NumberType.BIG_INTEGER ? parser.getBigIntegerValue() : (Object) parser.getLongValue();
    }

    private static Map<String, Object> object(JsonParser parser) throws IOException {
        Map<String, Object> members = new LinkedHashMap<>();
        while (parser.nextToken() != JsonToken.END_OBJECT) {
            String name = parser.currentName();
            parser.nextToken();
            members.put(name, value(parser));
        }
        return members;
    }

    private static List<Object> array(JsonParser parser) throws IOException {
        List<Object> values = new ArrayList<>();
        while (parser.nextToken() != JsonToken.END_ARRAY) {
            values.add(value(parser));
        }
        return values;
    }

    /** Returns the JSON of a value in UTF-8. */
    static byte[] bytes(Object value) {
        return bytes(FACTORY, value, Canonical::of);
    }

    /** Returns the JSON of an event's fields, in which numbers that are not finite are null. */
    static byte[] eventBytes(Map<String, Object> fields) {
        return bytes(EVENT_FACTORY, fields, Canonical::finite);
    }

    private static byte[] bytes(JsonFactory factory, Object value, UnaryOperator<Object> canonical) {
        try (ByteArrayBuilder out = new ByteArrayBuilder()) {
            try (JsonGenerator generator = factory.createGenerator(out)) {
                write(generator, value, canonical);
            }
            return out.toByteArray();
        } catch (StreamConstraintsException error) {
            throw new WrongTypeException("the value is nested too deeply: " + error.getOriginalMessage());
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void write(JsonGenerator generator, Object value, UnaryOperator<Object> canonical) throws IOException {
        Object plain = canonical.apply(value);
        if (plain instanceof String text) {
            generator.writeString(Canonical.wellFormed(text));
        } else if (plain instanceof Map<?, ?> members) {
            generator.writeStartObject();
            for (Map.Entry<?, ?> member : members.entrySet()) {
                generator.writeFieldName(Canonical.wellFormed(String.valueOf(member.getKey())));
                write(generator, member.getValue(), canonical);
            }
            generator.writeEndObject();
        } else if (plain instanceof Iterable<?> values) {
            generator.writeStartArray();
            for (Object each : values) {
                write(generator, each, canonical);
            }
            generator.writeEndArray();
        } else if (plain instanceof java.time.Instant time) {
            generator.writeString(time.toString());
        } else {
            // The text of null, booleans and numbers is JSON.
            generator.writeRawValue(String.valueOf(plain));
        }
    }
}
