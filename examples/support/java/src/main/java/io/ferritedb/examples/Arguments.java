package io.ferritedb.examples;

import io.ferritedb.client.Client;
import io.ferritedb.client.ClientOptions;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * Options of the form {@code --name=value}, each with a default. What is not an option of the
 * program, or not such a value, is refused with a sentence.
 */
public final class Arguments {
    /** Thrown for what the user wrote; the message is for the user. */
    public static final class Refused extends RuntimeException {
        private static final long serialVersionUID = 1L;

        public Refused(String message) {
            super(message);
        }
    }

    private static final String[][] COMMON = {
        {"mode", "async", "async: one thread makes calls and waits for none; sync: many threads, each waits for its answer"},
        {"displayinterval", "5", "seconds between two lines of figures"},
        {"servers", "localhost", "host or host:port, several with commas between"},
        {"ratelimit", "2147483647", "calls a second, at most"},
        {"outstanding", "3000", "calls without an answer, at most, with --mode=async"},
        {"latencyreport", "false", "print latencies too"},
        {"statsfile", "", "append a line of figures to this file"},
        {"user", "", "who logs in"},
        {"password", "", ""},
        {"sslfile", "", "properties with trustStore and trustStorePassword, for servers that speak TLS"},
        {"topologyaware", "true", "send calls to the node that has their partition"},
    };

    private final Map<String, String> values = new LinkedHashMap<>();

    /** Reads what was given; own options are rows of name, default, explanation. */
    public Arguments(String[] given, String[]... own) {
        Map<String, String> help = new LinkedHashMap<>();
        for (String[][] rows : new String[][][] {own, COMMON}) {
            for (String[] row : rows) {
                values.putIfAbsent(row[0], row[1]);
                help.putIfAbsent(row[0], row[2]);
            }
        }
        for (String argument : given) {
            if (argument.equals("--help")) {
                help.forEach((name, text) -> System.out.printf("  --%s=%s%n        %s%n", name, values.get(name), text));
                System.exit(0);
            }
            int equals = argument.indexOf('=');
            String name = argument.startsWith("--") ? argument.substring(2, equals < 0 ? argument.length() : equals) : "";
            if (!values.containsKey(name)) throw new Refused("'" + argument + "' is no option; there are --" + String.join(", --", values.keySet()));
            values.put(name, equals < 0 ? "true" : argument.substring(equals + 1));
        }
    }

    public String text(String name) {
        return values.get(name);
    }

    public boolean flag(String name) {
        return switch (text(name)) {
            case "true" -> true;
            case "false" -> false;
            default -> throw new Refused("--" + name + " is true or false, not '" + text(name) + "'");
        };
    }

    public int integer(String name, int least, int most) {
        try {
            int value = Integer.parseInt(text(name));
            if (value >= least && value <= most) return value;
        } catch (NumberFormatException noNumber) {
            // Said below.
        }
        throw new Refused("--" + name + " is a whole number from " + least + " to " + most + ", not '" + text(name) + "'");
    }

    /** A share of the whole. */
    public double share(String name) {
        try {
            double value = Double.parseDouble(text(name));
            if (value >= 0 && value <= 1) return value;
        } catch (NumberFormatException noNumber) {
            // Said below.
        }
        throw new Refused("--" + name + " is a number from 0 to 1, not '" + text(name) + "'");
    }

    public boolean synchronous() {
        return switch (text("mode")) {
            case "sync" -> true;
            case "async" -> false;
            default -> throw new Refused("--mode is async or sync, not '" + text("mode") + "'");
        };
    }

    /** Connects as the options say. */
    public Client connect() throws IOException, GeneralSecurityException {
        ClientOptions options = Client.to(text("servers")).credentials(text("user"), text("password")).affinity(flag("topologyaware"))
                .maxOutstanding(integer("outstanding", 1, 1_000_000));
        int rate = integer("ratelimit", 1, Integer.MAX_VALUE);
        if (rate < Integer.MAX_VALUE) options.rate(rate);
        if (!text("sslfile").isEmpty()) options.tls(trust(Path.of(text("sslfile"))));
        return options.connect();
    }

    private static SSLContext trust(Path file) throws IOException, GeneralSecurityException {
        Properties properties = new Properties();
        try (InputStream in = Files.newInputStream(file)) {
            properties.load(in);
        }
        String store = properties.getProperty("trustStore");
        if (store == null) throw new Refused(file + " does not name a trustStore");
        KeyStore keys = KeyStore.getInstance(Path.of(store).toFile(), properties.getProperty("trustStorePassword", "").toCharArray());
        TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(keys);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        return context;
    }

    /**
     * Runs a program: what the user did wrong, and what the server refuses, is one line; the exit
     * code says whether all was well.
     */
    public static void main(Program program) {
        boolean well = false;
        try {
            well = program.run();
        } catch (Refused | io.ferritedb.client.ConnectException | io.ferritedb.client.CallException said) {
            System.err.println("error: " + said.getMessage());
        } catch (IOException | GeneralSecurityException | InterruptedException failed) {
            System.err.println("error: " + failed);
        }
        System.exit(well ? 0 : 1);
    }

    /** True if all was well. */
    public interface Program {
        boolean run() throws IOException, GeneralSecurityException, InterruptedException;
    }
}
