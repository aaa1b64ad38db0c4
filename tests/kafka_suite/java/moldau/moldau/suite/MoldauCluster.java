package moldau.suite;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import kafka.server.BrokerServer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConfigEntry.ConfigSource;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;

/** Moldau brokers, each a process of its own, numbered from 0 as Kafka's harness numbers them. */
public class MoldauCluster implements AutoCloseable {
    private static final Set<MoldauCluster> RUNNING = ConcurrentHashMap.newKeySet();
    private static final Pattern OPENED = Pattern.compile("listener (\\S+) is open at \\S+:(\\d+)");
    private static final int START_S = 120, STOP_S = 120, ANSWER_S = 30;
    static {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> RUNNING.forEach(c -> c.processes.values().forEach(Process::destroyForcibly))));
    }

    private final ClusterShape shape;
    private final Path directory;
    private final Map<Integer, BrokerSettings> settings = new TreeMap<>();
    private final Map<Integer, Process> processes = new ConcurrentHashMap<>();
    private final Map<Integer, BrokerServer> brokers = new TreeMap<>();
    private Admin admin;

    public MoldauCluster(ClusterShape shape) {
        this.shape = shape;
        try {
            directory = Files.createTempDirectory("cluster");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** As many brokers as the shape says, with settings of their own by id. */
    public MoldauCluster addAll(Map<Integer, Map<String, String>> own) {
        for (int id = 0; id < shape.asked(); id++)
            add(id, own.getOrDefault(id, Map.of()));
        return this;
    }

    /** A broker with these settings of its own, or in a rehearsal, the one that stands for all. */
    public BrokerServer add(int id, Map<String, String> own) {
        if (shape.folded() && !brokers.isEmpty() && !brokers.containsKey(id))
            return brokers.values().iterator().next();
        closeAdmin(); // one that was there may have had other ports
        try {
            settings.put(id, new BrokerSettings(id, shape, own, directory));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return brokers.computeIfAbsent(id, key -> BrokerView.of(this, id));
    }

    // --- Brokers as processes ---

    public void start() {
        ids().forEach(this::launch);
        ids().forEach(this::awaitReady);
    }

    public void startBroker(int id) {
        launch(known(id));
        awaitReady(id);
    }

    private void check() {
        shape.check(ids().size());
        settings.values().forEach(BrokerSettings::check);
        CurrentTest.folded = shape.folded();
        if (shape.folded())
            Folding.install();
        if (RUNNING.add(this))
            CurrentTest.clusterStarted();
    }

    private int known(int id) {
        if (!settings.containsKey(id))
            throw new IllegalArgumentException("Unknown brokerId " + id);
        return id;
    }

    private Path output(int id) {
        return directory.resolve("broker_" + id + ".log");
    }

    private void launch(int id) {
        if (!isShutdown(id))
            return;
        check();
        try {
            Path file = directory.resolve("broker_" + id + ".properties");
            settings.get(id).write(file);
            Files.deleteIfExists(output(id));
            processes.put(id, new ProcessBuilder(System.getProperty("suite.moldau"), "broker", "--config", file.toString())
                .redirectErrorStream(true).redirectOutput(output(id).toFile()).start());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void awaitReady(int id) {
        Waiting.until("broker " + id + " did not start", START_S, () -> {
            String text = Files.readString(output(id));
            if (isShutdown(id))
                throw new AssertionError("broker " + id + " ended: " + text);
            return text.contains("moldau ready");
        });
    }

    public void shutdownBroker(int id) {
        Process process = processes.get(known(id));
        if (isShutdown(id))
            return;
        process.destroy();
        awaitEnd(id);
    }

    private void awaitEnd(int id) {
        Process process = processes.get(id);
        try {
            if (!process.waitFor(STOP_S, TimeUnit.SECONDS))
                process.destroyForcibly().waitFor();
            if (process.exitValue() != 0)
                System.err.println("*** broker " + id + " ended with " + process.exitValue() + "\n" + Files.readString(output(id)));
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    public boolean isShutdown(int id) {
        Process process = processes.get(id);
        return process == null || !process.isAlive();
    }

    @Override
    public void close() {
        closeAdmin();
        processes.values().stream().filter(Process::isAlive).forEach(Process::destroy);
        processes.keySet().forEach(this::awaitEnd); // a second signal would cut an end short
        if (RUNNING.remove(this))
            CurrentTest.clusterClosed();
        try {
            for (int id : processes.keySet()) {
                String text = Files.exists(output(id)) ? Files.readString(output(id)) : "";
                if (text.contains("Traceback") || Boolean.getBoolean("suite.broker.output"))
                    System.err.println("*** what broker " + id + " said\n" + text);
            }
            try (var files = Files.walk(directory)) {
                files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    // --- What a client sees ---

    public Set<Integer> ids() {
        return settings.keySet();
    }

    private List<Integer> runningIds() {
        return ids().stream().filter(id -> !isShutdown(id)).toList();
    }

    public Map<Integer, BrokerServer> brokers() {
        return brokers;
    }

    public String bootstrapServers() {
        return ids().stream().map(id -> "localhost:" + port(id, shape.listener())).collect(Collectors.joining(","));
    }

    public int port(int id, String listener) {
        Integer port = ports(id).get(listener);
        if (port == null)
            throw new KafkaException("broker " + id + " has no listener " + listener);
        return port;
    }

    /** That of a broker which runs. */
    int clientPort() {
        return port(runningIds().get(0), shape.listener());
    }

    /** By listener; of those that were opened while the broker runs, it says where they are. */
    Map<String, Integer> ports(int id) {
        Map<String, Integer> ports = new HashMap<>(settings.get(id).ports);
        if (!processes.containsKey(id))
            return ports;
        try {
            OPENED.matcher(Files.readString(output(id))).results().forEach(found -> ports.put(found.group(1), Integer.valueOf(found.group(2))));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return ports;
    }

    Map<String, String> properties(int id) {
        return settings.get(id).properties;
    }

    String controllerListener() {
        return shape.controllerListener();
    }

    private Map<String, Object> clientSettings() {
        Map<String, Object> client = new HashMap<>(Map.of("bootstrap.servers", bootstrapServers(), "client.id", "suite"));
        if (shape.protocol().equals("SASL_PLAINTEXT"))
            client.putAll(Map.of("security.protocol", shape.protocol(), "sasl.mechanism", "PLAIN", "sasl.jaas.config", BrokerSettings.login(BrokerSettings.ADMIN)));
        return client;
    }

    synchronized Admin admin() {
        if (admin == null)
            admin = Admin.create(clientSettings());
        return admin;
    }

    private synchronized void closeAdmin() {
        if (admin != null)
            admin.close(Duration.ZERO);
        admin = null;
    }

    static <T> T answer(Callable<org.apache.kafka.common.KafkaFuture<T>> call) {
        try {
            return call.call().get(ANSWER_S, TimeUnit.SECONDS);
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    /** The settings of a topic, a group or a broker, those from such a source. */
    Map<String, String> describe(ConfigResource resource, Predicate<ConfigSource> source) {
        Map<String, String> values = new HashMap<>();
        for (ConfigEntry entry : answer(() -> admin().describeConfigs(List.of(resource)).all()).get(resource).entries())
            if (entry.value() != null && source.test(entry.source()))
                values.put(entry.name(), entry.value());
        return values;
    }

    Map<String, String> describe(ConfigResource resource) {
        return describe(resource, source -> true);
    }

    public String clusterId() {
        return answer(() -> admin().describeCluster().clusterId());
    }

    DirectMetadata metadata(int id) throws IOException {
        return DirectMetadata.of(port(id, shape.listener()), clientSettings());
    }

    /** As the first of the running brokers has them. */
    Map<String, Uuid> topicIds() {
        try {
            return metadata(runningIds().get(0)).topicIds();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    // --- What a test waits for ---

    public void awaitBrokers() {
        Waiting.until("not all brokers are registered", Waiting.METADATA_S, () -> {
            for (int id : runningIds())
                if (!metadata(id).brokerIds().equals(runningIds()))
                    return false;
            return true;
        });
    }

    /** All running brokers know the same brokers, topics, leaders and in-sync replicas. */
    public void awaitConsistentMetadata() {
        Waiting.until("brokers differ in their metadata", Waiting.METADATA_S, () -> {
            List<Integer> running = runningIds();
            if (running.isEmpty())
                return true;
            DirectMetadata first = metadata(running.get(0));
            for (int id : running)
                if (!metadata(id).agreesWith(first))
                    return false;
            return first.brokerIds().containsAll(running);
        });
    }

    public void awaitTopic(String name, int partitions) {
        Waiting.until(name + " metadata not propagated", Waiting.METADATA_S, () -> {
            for (int id : runningIds())
                if (metadata(id).partitions(name).filter(found -> found.size() == partitions).isEmpty())
                    return false;
            return true;
        });
        awaitConsistentMetadata();
    }

    /** Gone from what every broker knows, from the checkpoints of cleaned offsets, and from the disks. */
    public void awaitNoTopic(String name) {
        Waiting.until(name + " is still in the metadata", Waiting.METADATA_S, () -> {
            for (int id : runningIds())
                if (metadata(id).partitions(name).isPresent())
                    return false;
            return true;
        });
        awaitConsistentMetadata();
        Waiting.until(name + " still has a cleaner offset", Waiting.CONDITION_S, () -> logDirs().stream().noneMatch(dir -> hasCleanerOffset(dir, name)));
        Waiting.until(name + " still has directories", Waiting.CONDITION_S, () -> logDirs().stream().noneMatch(dir -> hasEntry(dir, name, "")));
        Waiting.until(name + " still has renamed directories", Waiting.CONDITION_S + deleteDelaySeconds(),
            () -> logDirs().stream().noneMatch(dir -> hasEntry(dir, name, "[.][0-9a-f]+-delete")));
    }

    List<Path> logDirs(int id) {
        return settings.get(id).logDirs;
    }

    private List<Path> logDirs() {
        return runningIds().stream().flatMap(id -> logDirs(id).stream()).toList();
    }

    private long deleteDelaySeconds() {
        return TimeUnit.MILLISECONDS.toSeconds(Long.parseLong(shape.common().getOrDefault("log.segment.delete.delay.ms", "60000")));
    }

    private static boolean hasCleanerOffset(Path logDir, String topic) {
        try {
            Set<TopicPartition> cleaned = new OffsetCheckpointFile(logDir.resolve("cleaner-offset-checkpoint").toFile(), null).read().keySet();
            return cleaned.stream().anyMatch(partition -> partition.topic().equals(topic));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static boolean hasEntry(Path logDir, String topic, String suffix) {
        String[] names = logDir.toFile().list();
        String wanted = java.util.regex.Pattern.quote(topic) + "-[0-9]+" + suffix;
        return names != null && java.util.Arrays.stream(names).anyMatch(name -> name.matches(wanted));
    }
}
