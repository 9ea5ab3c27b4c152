package io.ferritedb.client;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Which node leads what a call touches. A wrong guess costs a hop inside the cluster and nothing
 * else, so what is not understood is left to chance.
 */
final class Topology {
    /** What decides the partition of a procedure's call; parameter -1: the caller names it. */
    private record Routed(int parameter, boolean integer) {}

    /** Who leads: each partition, and transactions over several (null: not known). */
    private record Leaders(Ring ring, Map<Integer, Integer> hosts, Integer coordinator, Set<Integer> all) {}

    /** A node, and where it takes connections. */
    record Host(int id, ClientOptions.Address address) {}

    private static final int COORDINATOR = 16383;
    private static final int HOSTS_MAX = 256;
    private static final Pattern PARAMETER = Pattern.compile("\"partitionParameter\"\\s*:\\s*(-?\\d{1,9})\\b");
    private static final Pattern TYPE = Pattern.compile("\"partitionParameterType\"\\s*:\\s*(-?\\d{1,9})\\b");
    private static final Pattern SINGLE = Pattern.compile("\"singlePartition\"\\s*:\\s*true");

    private volatile Leaders leaders = new Leaders(null, Map.of(), null, Set.of());
    private volatile Map<String, Routed> procedures = Map.of();

    /** Takes the two tables of {@code @Statistics TOPO}. True if another node leads something. */
    boolean learnLeaders(List<Table> tables) {
        if (tables.size() < 2) return false;
        Map<Integer, Integer> hosts = new HashMap<>();
        Integer coordinator = null;
        Set<Integer> all = new TreeSet<>();
        for (Row row : tables.get(0)) {
            int partition = (int) row.getLong(0);
            String sites = row.getString(1);
            if (sites != null) {
                for (String site : sites.split(",")) {
                    Integer host = host(site);
                    if (host != null) all.add(host);
                }
            }
            Integer leader = host(row.getString(2));
            if (leader == null) continue;
            all.add(leader);
            if (partition == COORDINATOR) coordinator = leader;
            else hosts.put(partition, leader);
        }
        Ring ring = null;
        for (Row row : tables.get(1)) {
            byte[] raw = row.getBytes(1);
            if (raw != null) ring = Ring.parse(raw);
        }
        Leaders before = leaders;
        leaders = new Leaders(ring, hosts, coordinator, all);
        return !hosts.equals(before.hosts()) || !java.util.Objects.equals(coordinator, before.coordinator());
    }

    /** The hosts that lead something. */
    Set<Integer> leading() {
        Leaders now = leaders;
        Set<Integer> leading = new TreeSet<>(now.hosts().values());
        if (now.coordinator() != null) leading.add(now.coordinator());
        return leading;
    }

    /** The host of {@code host:site}; null if it is not that. */
    private static Integer host(String site) {
        if (site == null || site.indexOf(':') < 1) return null;
        try {
            int host = Integer.parseInt(site.substring(0, site.indexOf(':')));
            // -1: no node leads at the moment.
            return host < 0 ? null : host;
        } catch (NumberFormatException other) {
            return null;
        }
    }

    /**
     * Takes the table of {@code @SystemCatalog PROCEDURES}: name in column 2, a JSON object of flat
     * members in column 6.
     */
    void learnProcedures(List<Table> tables) {
        if (tables.isEmpty()) return;
        Map<String, Routed> found = new HashMap<>();
        for (Row row : tables.get(0)) {
            String remarks = row.getString(6);
            if (remarks == null || !SINGLE.matcher(remarks).find()) continue;
            Matcher parameter = PARAMETER.matcher(remarks);
            Matcher type = TYPE.matcher(remarks);
            if (!parameter.find() || !type.find()) continue;
            int code = Integer.parseInt(type.group(1));
            found.put(row.getString(2), new Routed(Integer.parseInt(parameter.group(1)), code >= SqlType.TINYINT.code && code <= SqlType.BIGINT.code));
        }
        procedures = found;
    }

    /** The nodes of {@code @SystemInformation OVERVIEW} that say where they take connections. */
    static List<Host> hosts(Table overview) {
        Map<Integer, Map<String, String>> rows = new HashMap<>();
        for (Row row : overview) {
            int id = (int) row.getLong(0);
            if (rows.size() < HOSTS_MAX || rows.containsKey(id)) rows.computeIfAbsent(id, host -> new HashMap<>()).put(row.getString(1), row.getString(2));
        }
        List<Host> hosts = new ArrayList<>();
        rows.forEach((id, values) -> {
            String ip = values.get("IPADDRESS");
            String port = values.get("CLIENTPORT");
            if (ip == null || ip.isEmpty() || port == null || !port.matches("[1-9]\\d{0,4}")) return;
            hosts.add(new Host(id, new ClientOptions.Address(ip, Integer.parseInt(port))));
        });
        return hosts;
    }

    /** All hosts that have a copy of something. */
    Set<Integer> hosts() {
        return leaders.all();
    }

    /** Host that leads a partition; null: any will do. */
    Integer leader(int partition) {
        return leaders.hosts().get(partition);
    }

    /**
     * Host that leads the partition of this call or, if it has none of its own, transactions over
     * several; null: any will do.
     */
    Integer host(String procedure, Object[] parameters) {
        Leaders known = leaders;
        Routed routed = procedures.get(procedure);
        if (routed == null) return known.coordinator();
        if (known.ring() == null || routed.parameter() < 0 || routed.parameter() >= parameters.length) return null;
        return known.hosts().get(known.ring().owner(parameters[routed.parameter()], routed.integer()));
    }
}
