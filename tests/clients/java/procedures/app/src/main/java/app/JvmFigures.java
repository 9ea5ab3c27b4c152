package app;

import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;

/** What the server's JVM holds, after a full collection. */
public class JvmFigures extends VoltProcedure {
    public VoltTable run() {
        System.gc();
        long metaspace = 0;
        for (MemoryPoolMXBean pool : ManagementFactory.getMemoryPoolMXBeans()) {
            if (pool.getName().equals("Metaspace")) {
                metaspace = pool.getUsage().getUsed();
            }
        }
        VoltTable table = new VoltTable(new VoltTable.ColumnInfo("CLASSES", VoltType.BIGINT), new VoltTable.ColumnInfo("METASPACE", VoltType.BIGINT),
                new VoltTable.ColumnInfo("UNLOADED", VoltType.BIGINT));
        table.addRow(ManagementFactory.getClassLoadingMXBean().getLoadedClassCount(), metaspace,
                ManagementFactory.getClassLoadingMXBean().getUnloadedClassCount());
        return table;
    }
}
