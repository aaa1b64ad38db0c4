package moldau.suite;

import java.io.IOException;
import java.io.OutputStream;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.regex.Pattern;

/** The settings of one broker as Kafka's harness would make them: from the test's, with ports and directories of its own. */
final class BrokerSettings {
    static final String ADMIN = "plain-admin";
    private static final String USER = "plain-user1";
    /** How many of something that a single broker has one of. */
    private static final List<String> REPLICAS = List.of("offsets.topic.replication.factor", "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr", "default.replication.factor", "min.insync.replicas",
        "share.coordinator.state.topic.replication.factor", "share.coordinator.state.topic.min.isr");
    /** What says which KRaft nodes there are. */
    private static final Pattern OF_KRAFT = Pattern.compile("process[.]roles|broker[.]id|controller[.](quorum[.](voters|bootstrap[.]servers)|listener[.]names)");
    private static final Pattern PLUG_INS = Pattern.compile("(create[.]topic|alter[.]config)[.]policy[.]class[.]name|client[.]quota[.]callback[.]class"
        + "|metric[.]reporters|(.*[.])?principal[.]builder[.]class|remote[.]log.*");
    private static final Pattern SECURED = Pattern.compile(".*:(SSL|SASL_SSL|SASL_PLAINTEXT).*");

    final Map<String, String> properties;
    /** By listener. */
    final Map<String, Integer> ports = new HashMap<>();
    final List<Path> logDirs = new ArrayList<>();
    private final ClusterShape shape;

    BrokerSettings(int id, ClusterShape shape, Map<String, String> own, Path directory) throws IOException {
        this.shape = shape;
        properties = new TreeMap<>(shape.common());
        properties.putIfAbsent("listener.security.protocol.map", shape.listener() + ":" + shape.protocol() + "," + shape.controllerListener() + ":PLAINTEXT");
        properties.putIfAbsent("listeners", shape.listener() + "://localhost:0");
        if (!own.containsKey("security.inter.broker.protocol"))
            properties.putIfAbsent("inter.broker.listener.name", shape.listener());
        properties.putIfAbsent("log.cleaner.dedupe.buffer.size", "2097152");
        properties.putIfAbsent("unstable.api.versions.enable", "true");
        properties.putIfAbsent("unstable.feature.versions.enable", "true");
        properties.putAll(own);
        properties.keySet().removeIf(name -> OF_KRAFT.matcher(name).matches());
        if (shape.folded())
            REPLICAS.forEach(name -> properties.put(name, "1"));
        properties.put("listeners", clientListeners());
        properties.computeIfPresent("advertised.listeners", (name, addresses) -> properties.get("listeners"));
        properties.put(shape.coordinated() ? "broker.id" : "node.id", String.valueOf(id));
        for (String path : own.getOrDefault("log.dirs", own.getOrDefault("log.dir", "")).split(","))
            if (!path.isBlank())
                logDirs.add(Path.of(path.trim()).toAbsolutePath());
        for (int disk = logDirs.size(); disk < shape.disks(); disk++)
            logDirs.add(Files.createDirectories(directory.resolve("broker_" + id + "_data" + disk)));
        properties.put("log.dirs", String.join(",", logDirs.stream().map(Path::toString).toList()));
        if (shape.coordinated()) {
            properties.put("zookeeper.connect", Coordination.connect(directory));
            properties.put("zookeeper.session.timeout.ms", Coordination.SESSION_MS);
        }
        if (shape.protocol().equals("SASL_PLAINTEXT"))
            addLogins();
    }

    /** All but the controller's, each on a free port where the test leaves it open. */
    private String clientListeners() throws IOException {
        List<String> listeners = new ArrayList<>();
        for (String listener : properties.get("listeners").split(",")) {
            String name = listener.substring(0, listener.indexOf("://")).trim();
            String host = listener.substring(listener.indexOf("://") + 3, listener.lastIndexOf(':')).trim();
            int port = Integer.parseInt(listener.substring(listener.lastIndexOf(':') + 1).trim());
            if (name.equals(shape.controllerListener()))
                continue;
            ports.put(name, port == 0 ? freePort() : port);
            listeners.add(name + "://" + host + ":" + ports.get(name));
        }
        return String.join(",", listeners);
    }

    private void addLogins() {
        properties.putIfAbsent("sasl.enabled.mechanisms", "PLAIN");
        properties.putIfAbsent("sasl.mechanism.inter.broker.protocol", "PLAIN");
        properties.putIfAbsent("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer");
        properties.putIfAbsent("allow.everyone.if.no.acl.found", "false");
        properties.putIfAbsent("super.users", "User:" + ADMIN);
        properties.putIfAbsent("listener.name." + shape.listener().toLowerCase() + ".plain.sasl.jaas.config",
            login(ADMIN).replace(";", "") + " user_" + ADMIN + "=\"" + ADMIN + "-secret\" user_" + USER + "=\"" + USER + "-secret\";");
    }

    static String login(String user) {
        return "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"" + user + "\" password=\"" + user + "-secret\";";
    }

    void check() {
        properties.forEach((name, value) -> {
            boolean secured = name.equals("authorizer.class.name") || name.equals("listener.security.protocol.map") && SECURED.matcher(value).matches();
            if (secured && !ClusterShape.SECURITY)
                throw new MissingFeature("security", name + "=" + value);
            if (PLUG_INS.matcher(name).matches() || name.equals("group.consumer.assignors") && value.contains("org.apache.kafka.clients."))
                throw MissingFeature.internals("a Java plug-in inside the broker: " + name + "=" + value);
        });
    }

    void write(Path file) throws IOException {
        Properties written = new Properties();
        written.putAll(properties);
        try (OutputStream out = Files.newOutputStream(file)) {
            written.store(out, null);
        }
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }
}
