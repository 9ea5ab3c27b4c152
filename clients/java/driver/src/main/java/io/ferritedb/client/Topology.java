package io.ferritedb.client;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Which node leads the partition of a call. A wrong guess costs a hop inside the cluster and
 * nothing else.
 */
final class Topology {
    private record Routed(int parameter, boolean integer) {}

    private static final int COORDINATOR = 16383;
    private static final Pattern PARAMETER = Pattern.compile("\"partitionParameter\"\\s*:\\s*(-?\\d+)");
    private static final Pattern TYPE = Pattern.compile("\"partitionParameterType\"\\s*:\\s*(-?\\d+)");
    private static final Pattern SINGLE = Pattern.compile("\"singlePartition\"\\s*:\\s*true");

    private volatile Ring ring;
    private volatile Map<Integer, Integer> leaders = Map.of();
    private volatile Map<String, Routed> procedures = Map.of();

    /** Takes the two tables of {@code @Statistics TOPO}. */
    void learnTopology(List<Table> tables) {
        if (tables.size() < 2) return;
        Map<Integer, Integer> found = new HashMap<>();
        for (Row row : tables.get(0)) {
            int partition = (int) row.getLong(0);
            String leader = row.getString(2);
            if (partition != COORDINATOR && leader != null && leader.indexOf(':') > 0) found.put(partition, Integer.parseInt(leader.substring(0, leader.indexOf(':'))));
        }
        for (Row row : tables.get(1)) {
            Ring parsed = Ring.parse(row.getBytes(1));
            if (parsed != null) ring = parsed;
        }
        leaders = found;
    }

    /**
     * Takes the table of {@code @SystemCatalog PROCEDURES}: name in column 2, a JSON object of four
     * flat members in column 6.
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
            int position = Integer.parseInt(parameter.group(1));
            int code = Integer.parseInt(type.group(1));
            if (position >= 0) found.put(row.getString(2), new Routed(position, code >= SqlType.TINYINT.code && code <= SqlType.BIGINT.code));
        }
        procedures = found;
    }

    Integer leader(int partition) {
        return leaders.get(partition);
    }

    /** Host that leads the partition of this call; null: any will do. */
    Integer host(String procedure, Object[] parameters) {
        Routed routed = procedures.get(procedure);
        Ring known = ring;
        if (routed == null || known == null || routed.parameter() >= parameters.length) return null;
        return leaders.get(known.owner(parameters[routed.parameter()], routed.integer()));
    }
}
