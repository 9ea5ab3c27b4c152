package io.ferritedb.conformance;

import io.ferritedb.client.CallException;
import io.ferritedb.client.Client;
import io.ferritedb.client.ClientOptions;
import io.ferritedb.client.ConnectException;
import io.ferritedb.client.Point;
import io.ferritedb.client.Polygon;
import io.ferritedb.client.Row;
import io.ferritedb.client.SqlType;
import io.ferritedb.client.Table;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;

/**
 * The Java driver as the suite sees it: commands on standard input, answers on standard output. See
 * README.md for their form.
 */
public final class Adapter {
    private static final HexFormat HEX = HexFormat.of();

    private Client client;
    private Hammer hammer;

    public static void main(String[] arguments) throws IOException {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        Adapter adapter = new Adapter();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = adapter.command(line.split("\t", -1));
            } catch (CallException failed) {
                answer = failed.outcome().name().toLowerCase(java.util.Locale.ROOT).replace('_', '-') + "\t" + failed.status() + "\t" + hex(failed.getMessage()) + "\t" + failed.code();
            } catch (ConnectException failed) {
                answer = "error\t0\t" + hex(failed.getMessage()) + "\t" + failed.code();
            } catch (RuntimeException refused) {
                answer = "error\t0\t" + hex(String.valueOf(refused.getMessage())) + "\t";
            }
            out.println(answer);
            if (line.equals("close")) break;
        }
    }

    private String command(String[] fields) {
        switch (fields[0]) {
            case "connect" -> {
                ClientOptions options = Client.to(fields[1]).timeout(Duration.ofMillis(Long.parseLong(fields[2]))).reconnect(Duration.ofMillis(10), Duration.ofMillis(100));
                if (fields[3].equals("plain")) options.affinity(false).discover(false);
                client = options.connect();
                return "ok";
            }
            case "call" -> {
                Object[] parameters = Arrays.stream(fields).skip(2).map(Adapter::parameter).toArray();
                var result = client.callSync(fields[1], parameters);
                return result.tables().stream().map(table -> "\t" + table(table)).collect(Collectors.joining("", "ok", ""));
            }
            case "hammer" -> {
                hammer = new Hammer(client, fields[1], Integer.parseInt(fields[2]));
                return "ok";
            }
            case "answered" -> {
                return "ok\t" + hammer.answered.size();
            }
            case "stop" -> {
                return hammer.stop();
            }
            case "close" -> {
                client.close();
                return "ok";
            }
            default -> throw new IllegalArgumentException("no command " + fields[0]);
        }
    }

    private static String hex(String text) {
        return HEX.formatHex(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String text(String hex) {
        return new String(HEX.parseHex(hex), StandardCharsets.UTF_8);
    }

    private static Object parameter(String field) {
        String[] parts = field.split("=", -1);
        if (parts[0].equals("NULL")) return null;
        if (!parts[0].equals("ARRAY")) return value(parts[0], text(parts[1]));
        List<Object> elements = new ArrayList<>();
        if (!parts[2].isEmpty()) for (String element : parts[2].split(",", -1)) elements.add(element.equals("-") ? null : value(parts[1], text(element)));
        return elements;
    }

    private static Object value(String type, String text) {
        return switch (type) {
            case "TINYINT" -> Byte.valueOf(text);
            case "SMALLINT" -> Short.valueOf(text);
            case "INTEGER" -> Integer.valueOf(text);
            case "BIGINT" -> Long.valueOf(text);
            case "FLOAT" -> Double.valueOf(text);
            case "STRING" -> text;
            case "DECIMAL" -> new BigDecimal(text);
            case "TIMESTAMP" -> Instant.EPOCH.plus(Long.parseLong(text), ChronoUnit.MICROS);
            case "DATE" -> LocalDate.parse(text);
            case "BOOLEAN" -> Boolean.valueOf(text);
            case "VARBINARY" -> HEX.parseHex(text);
            case "GEOGRAPHY_POINT" -> new Point(Double.parseDouble(text.split(" ")[0]), Double.parseDouble(text.split(" ")[1]));
            default -> throw new IllegalArgumentException("no parameter of type " + type);
        };
    }

    private static String table(Table table) {
        StringBuilder out = new StringBuilder();
        for (int at = 0; at < table.columnCount(); at++) {
            SqlType type = table.columnType(at);
            out.append(at == 0 ? "" : ",").append(hex(table.columnName(at))).append(':').append(type == SqlType.VARCHAR ? "STRING" : type.name());
        }
        for (Row row : table) out.append('|').append(row.toList().stream().map(Adapter::cell).collect(Collectors.joining(",")));
        return out.toString();
    }

    private static String cell(Object value) {
        if (value == null) return "-";
        if (value instanceof Instant instant) return hex(Long.toString(instant.getEpochSecond() * 1_000_000 + instant.getNano() / 1000));
        if (value instanceof byte[] bytes) return hex(HEX.formatHex(bytes));
        if (value instanceof BigDecimal number) return hex(number.toPlainString());
        if (value instanceof Point point) return hex(point(point));
        if (value instanceof Polygon polygon) {
            return hex(polygon.rings().stream().map(ring -> ring.stream().map(Adapter::point).collect(Collectors.joining(","))).collect(Collectors.joining(";")));
        }
        return hex(value.toString());
    }

    private static String point(Point point) {
        return point.longitude() + " " + point.latitude();
    }

    /** So many callers, each of which makes its next call when the last one has ended. */
    private static final class Hammer {
        final ConcurrentLinkedQueue<Long> answered = new ConcurrentLinkedQueue<>();
        private final AtomicLong made = new AtomicLong();
        private final AtomicLong failed = new AtomicLong();
        private final AtomicLong unknown = new AtomicLong();
        private final AtomicLong notSent = new AtomicLong();
        private final List<Thread> callers = new ArrayList<>();
        private volatile boolean running = true;

        Hammer(Client client, String procedure, int count) {
            for (int at = 0; at < count; at++) {
                Thread caller = new Thread(() -> call(client, procedure), "caller-" + at);
                callers.add(caller);
                caller.start();
            }
        }

        private void call(Client client, String procedure) {
            while (running) {
                long id = made.getAndIncrement();
                try {
                    client.callSync(procedure, id);
                    answered.add(id);
                } catch (CallException ended) {
                    switch (ended.outcome()) {
                        case FAILED -> failed.incrementAndGet();
                        case UNKNOWN -> unknown.incrementAndGet();
                        case NOT_SENT -> notSent.incrementAndGet();
                    }
                    LockSupport.parkNanos(1_000_000);
                }
            }
        }

        String stop() {
            running = false;
            try {
                for (Thread caller : callers) caller.join();
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
            String ids = answered.stream().map(String::valueOf).collect(Collectors.joining(","));
            return String.join("\t", "ok", made.toString(), failed.toString(), unknown.toString(), notSent.toString(), ids);
        }
    }
}
