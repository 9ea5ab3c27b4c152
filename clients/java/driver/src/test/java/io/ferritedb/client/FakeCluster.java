package io.ferritedb.client;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;

/**
 * A cluster that is not there: nodes that tell a topology, change it, refuse calls, die in the
 * middle of them, and come back. {@code One} is partitioned on its first parameter, {@code All} is
 * not.
 */
final class FakeCluster implements AutoCloseable {
    /** What a node does with the calls of applications. */
    enum Manner {
        /** Answers with its host id. */
        SERVES,
        /** Answers that it does not lead, and executes nothing. */
        REFUSES,
        /** Takes calls and says nothing. */
        SILENT,
        /** Reads one more call, and then does not even read. */
        STUCK
    }

    record Got(int host, String procedure) {}

    static final int PARTITIONS = 4;
    private static final int TOKENS = 8;
    private static final long PUSHED_TOPOLOGY = Long.MAX_VALUE - 1;

    private final class Node {
        final int id;
        final ServerSocket listener;
        final List<Socket> open = new ArrayList<>();
        Manner manner = Manner.SERVES;
        boolean hasReadSince;
        boolean up = true;
        long clusterStart = 2;
        int[] view;
        int coordinator;
        int pushes;

        Node(int id, int nodes) throws IOException {
            this.id = id;
            view = IntStream.range(0, PARTITIONS).map(partition -> partition % nodes).toArray();
            listener = new ServerSocket(0, 100, InetAddress.getLoopbackAddress());
        }
    }

    private final List<Node> nodes = new ArrayList<>();
    private final List<Got> got = new ArrayList<>();
    private byte[] told;
    private int logins;

    /**
     * Nodes that agree: partition p is led by p modulo their number, transactions over several by
     * 0.
     */
    FakeCluster(int count) throws IOException {
        for (int id = 0; id < count; id++) nodes.add(new Node(id, count));
        for (Node node : nodes) daemon(() -> listen(node));
    }

    private static void daemon(Runnable work) {
        Thread thread = new Thread(work, "fake-node");
        thread.setDaemon(true);
        thread.start();
    }

    String address(int host) {
        return "127.0.0.1:" + nodes.get(host).listener.getLocalPort();
    }

    String addresses() {
        return String.join(",", IntStream.range(0, nodes.size()).mapToObj(this::address).toList());
    }

    /** A key of the partition. */
    static long keyOf(int partition) {
        Ring ring = Ring.parse(ring());
        for (long key = 0; ; key++) {
            if (ring.owner(Ring.token(key)) == partition) return key;
        }
    }

    synchronized void is(int host, Manner manner) {
        nodes.get(host).manner = manner;
        nodes.get(host).hasReadSince = false;
        notifyAll();
    }

    synchronized void belongsToAnother(int host) {
        nodes.get(host).clusterStart = 3;
    }

    /** Says this table instead of who leads. */
    synchronized void tells(byte[] table) {
        told = table;
    }

    /** From now on this node believes that. */
    synchronized void believes(int host, int coordinator, int... view) {
        nodes.get(host).view = view;
        nodes.get(host).coordinator = coordinator;
    }

    /** The node tells its subscribers what it believes before it answers the next call. */
    synchronized void pushesBeforeNextAnswer(int host) {
        nodes.get(host).pushes += 1;
    }

    /** Ends its connections, and makes no new ones. */
    synchronized void dies(int host) throws IOException {
        Node node = nodes.get(host);
        node.up = false;
        for (Socket socket : node.open) socket.close();
        node.open.clear();
        notifyAll();
    }

    synchronized void comesBack(int host) {
        nodes.get(host).up = true;
    }

    /** What applications called since the last look. */
    synchronized List<Got> calls() {
        List<Got> calls = got.stream().filter(each -> !each.procedure().startsWith("@") || each.procedure().equals("@AdHoc")).toList();
        got.clear();
        return calls;
    }

    /** How often this was asked of a host since the last look at the calls. */
    synchronized long asked(int host, String procedure) {
        return got.stream().filter(each -> each.host() == host && each.procedure().equals(procedure)).count();
    }

    synchronized int logins() {
        return logins;
    }

    synchronized int connections(int host) {
        return nodes.get(host).open.size();
    }

    /** Whether bytes have arrived at a host that it has not read. */
    synchronized boolean unread(int host) {
        try {
            for (Socket socket : nodes.get(host).open) {
                if (socket.getInputStream().available() > 0) return true;
            }
            return false;
        } catch (IOException closed) {
            throw new UncheckedIOException(closed);
        }
    }

    @Override
    public void close() throws IOException {
        for (Node node : nodes) {
            node.listener.close();
            dies(node.id);
        }
    }

    private void listen(Node node) {
        while (true) {
            try {
                Socket socket = node.listener.accept();
                socket.setTcpNoDelay(true);
                synchronized (this) {
                    if (!node.up) {
                        socket.close();
                        continue;
                    }
                    node.open.add(socket);
                }
                daemon(() -> serve(node, socket));
            } catch (IOException closed) {
                return;
            }
        }
    }

    private void serve(Node node, Socket socket) {
        try (socket) {
            DataInputStream in = new DataInputStream(socket.getInputStream());
            in.readNBytes(in.readInt());
            ByteBuffer login = ByteBuffer.allocate(4 + 31);
            login.putInt(31).put((byte) 0).put((byte) 0).putInt(node.id).putLong(1).putLong(node.clusterStart).putInt(0x7f000001).putInt(1).put((byte) 'x');
            socket.getOutputStream().write(login.array());
            synchronized (this) {
                logins += 1;
            }
            while (true) {
                synchronized (this) {
                    while (node.manner == Manner.STUCK && node.hasReadSince && node.up) wait();
                }
                ByteBuffer call = ByteBuffer.wrap(in.readNBytes(in.readInt()));
                if (call.get() == 0) socket.getOutputStream().write(answer(node, call));
            }
        } catch (IOException | InterruptedException | java.nio.BufferUnderflowException gone) {
            synchronized (this) {
                node.open.remove(socket);
            }
        }
    }

    private synchronized byte[] answer(Node node, ByteBuffer call) throws IOException {
        byte[] name = new byte[call.getInt()];
        call.get(name);
        String procedure = new String(name, StandardCharsets.UTF_8);
        long handle = call.getLong();
        got.add(new Got(node.id, procedure));
        switch (procedure) {
            case "@Subscribe", "@Ping":
                return response(handle, 1, null);
            case "@Statistics":
                return told != null ? response(handle, 1, null, told) : topology(node, handle);
            case "@SystemCatalog":
                return response(handle, 1, null, procedures());
            case "@SystemInformation":
                return response(handle, 1, null, overview());
            default:
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (; node.pushes > 0; node.pushes--) out.write(topology(node, PUSHED_TOPOLOGY));
        node.hasReadSince = true;
        if (node.manner == Manner.SERVES) out.write(response(handle, 1, null, table(new String[] {""}, new int[] {6}, List.<Object[]>of(new Object[] {(long) node.id}))));
        if (node.manner == Manner.REFUSES) out.write(response(handle, -5, "this node is not the leader: host 1 is"));
        return out.toByteArray();
    }

    private byte[] topology(Node node, long handle) {
        List<Object[]> rows = new ArrayList<>();
        // Every node has a copy of everything.
        String sites = String.join(",", nodes.stream().map(each -> each.id + ":0").toList());
        for (int partition = 0; partition < PARTITIONS; partition++) rows.add(new Object[] {partition, sites, node.view[partition] + ":0"});
        rows.add(new Object[] {16383, sites, node.coordinator + ":0"});
        return response(handle, 1, null, table(new String[] {"Partition", "Sites", "Leader"}, new int[] {5, 9, 9}, rows),
                table(new String[] {"HASHTYPE", "HASHCONFIG"}, new int[] {9, 25}, List.<Object[]>of(new Object[] {"ELASTIC", ring()})));
    }

    /** Eight tokens, dealt in turn. */
    private static byte[] ring() {
        ByteBuffer raw = ByteBuffer.allocate(4 + 8 * TOKENS).putInt(TOKENS);
        for (int at = 0; at < TOKENS; at++) raw.putInt(Integer.MIN_VALUE + at * (Integer.MAX_VALUE / (TOKENS / 2))).putInt(at % PARTITIONS);
        return raw.array();
    }

    private static byte[] procedures() {
        String[] names = {"PROCEDURE_CAT", "PROCEDURE_SCHEM", "PROCEDURE_NAME", "R1", "R2", "R3", "REMARKS"};
        int[] types = new int[names.length];
        Arrays.fill(types, 9);
        String one = "{\"readOnly\":false,\"singlePartition\":true,\"partitionParameter\":0,\"partitionParameterType\":6}";
        String all = "{\"readOnly\":false,\"singlePartition\":false}";
        return table(names, types, List.of(new Object[] {"", "", "One", "", "", "", one}, new Object[] {"", "", "All", "", "", "", all}));
    }

    private byte[] overview() {
        List<Object[]> rows = new ArrayList<>();
        for (Node node : nodes) {
            rows.add(new Object[] {node.id, "IPADDRESS", "127.0.0.1"});
            rows.add(new Object[] {node.id, "HOSTNAME", "x"});
            rows.add(new Object[] {node.id, "CLIENTPORT", "" + node.listener.getLocalPort()});
        }
        return table(new String[] {"HOST_ID", "KEY", "VALUE"}, new int[] {5, 9, 9}, rows);
    }

    /** A table with its length in front. */
    static byte[] table(String[] names, int[] types, List<Object[]> rows) {
        ByteArrayOutputStream head = new ByteArrayOutputStream();
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        try {
            DataOutputStream header = new DataOutputStream(head);
            header.writeByte(-128);
            header.writeShort(names.length);
            for (int type : types) header.writeByte(type);
            for (String name : names) text(header, name.getBytes(StandardCharsets.UTF_8));
            DataOutputStream out = new DataOutputStream(body);
            text(out, head.toByteArray());
            out.writeInt(rows.size());
            for (Object[] row : rows) {
                ByteArrayOutputStream cells = new ByteArrayOutputStream();
                DataOutputStream cell = new DataOutputStream(cells);
                for (Object value : row) {
                    if (value instanceof Integer number) cell.writeInt(number);
                    else if (value instanceof Long number) cell.writeLong(number);
                    else if (value instanceof byte[] data) text(cell, data);
                    else text(cell, ((String) value).getBytes(StandardCharsets.UTF_8));
                }
                text(out, cells.toByteArray());
            }
        } catch (IOException impossible) {
            throw new UncheckedIOException(impossible);
        }
        return ByteBuffer.allocate(4 + body.size()).putInt(body.size()).put(body.toByteArray()).array();
    }

    private static void text(DataOutputStream out, byte[] bytes) throws IOException {
        out.writeInt(bytes.length);
        out.write(bytes);
    }

    private static byte[] response(long handle, int status, String text, byte[]... tables) {
        byte[] words = text == null ? new byte[0] : text.getBytes(StandardCharsets.UTF_8);
        int length = 1 + 8 + 1 + 1 + (text == null ? 0 : 4 + words.length) + 1 + 4 + 2 + Arrays.stream(tables).mapToInt(table -> table.length).sum();
        ByteBuffer out = ByteBuffer.allocate(4 + length);
        out.putInt(length).put((byte) 0).putLong(handle).put((byte) (text == null ? 0 : 0x20)).put((byte) status);
        if (text != null) out.putInt(words.length).put(words);
        out.put((byte) -128).putInt(0).putShort((short) tables.length);
        for (byte[] table : tables) out.put(table);
        return out.array();
    }
}
