package org.voltdb;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads a JSON text: maps, lists, strings, {@link BigDecimal}, booleans and null. */
final class Json {
    private static final int DEPTH_MAX = 64;

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    static Object read(String text) {
        Json json = new Json(text);
        Object value = json.value(0);
        json.space();
        if (json.at != text.length()) {
            throw json.wrong("the end");
        }
        return value;
    }

    private IllegalArgumentException wrong(String expected) {
        return new IllegalArgumentException("not JSON: " + expected + " is expected at character " + (at + 1));
    }

    private void space() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private boolean accept(char wanted) {
        space();
        if (at < text.length() && text.charAt(at) == wanted) {
            at++;
            return true;
        }
        return false;
    }

    private void expect(char wanted) {
        if (!accept(wanted)) {
            throw wrong("'" + wanted + "'");
        }
    }

    private Object value(int depth) {
        if (depth > DEPTH_MAX) {
            throw wrong("less depth");
        }
        if (accept('{')) {
            Map<String, Object> members = new LinkedHashMap<>();
            if (accept('}')) {
                return members;
            }
            do {
                space();
                String name = string();
                expect(':');
                members.put(name, value(depth + 1));
            } while (accept(','));
            expect('}');
            return members;
        }
        if (accept('[')) {
            List<Object> elements = new ArrayList<>();
            if (accept(']')) {
                return elements;
            }
            do {
                elements.add(value(depth + 1));
            } while (accept(','));
            expect(']');
            return elements;
        }
        if (at < text.length() && text.charAt(at) == '"') {
            return string();
        }
        return word();
    }

    private Object word() {
        int start = at;
        while (at < text.length() && (Character.isLetterOrDigit(text.charAt(at)) || "+-.".indexOf(text.charAt(at)) >= 0)) {
            at++;
        }
        String word = text.substring(start, at);
        switch (word) {
            case "null":
                return null;
            case "true":
                return true;
            case "false":
                return false;
            default:
                try {
                    return new BigDecimal(word);
                } catch (NumberFormatException e) {
                    at = start;
                    throw wrong("a value");
                }
        }
    }

    private String string() {
        if (at >= text.length() || text.charAt(at) != '"') {
            throw wrong("'\"'");
        }
        at++;
        StringBuilder out = new StringBuilder();
        while (at < text.length()) {
            char c = text.charAt(at++);
            if (c == '"') {
                return out.toString();
            }
            out.append(c == '\\' ? escaped() : c);
        }
        throw wrong("'\"'");
    }

    private char escaped() {
        char c = at < text.length() ? text.charAt(at++) : ' ';
        switch (c) {
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            case 'u':
                int code = 0;
                for (int i = 0; i < 4; i++) {
                    int digit = at < text.length() ? Character.digit(text.charAt(at++), 16) : -1;
                    if (digit < 0) {
                        throw wrong("four hexadecimal digits");
                    }
                    code = code * 16 + digit;
                }
                return (char) code;
            case '"':
            case '\\':
            case '/':
                return c;
            default:
                throw wrong("an escape");
        }
    }
}
