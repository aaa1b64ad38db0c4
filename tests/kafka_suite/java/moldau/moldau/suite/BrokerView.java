package moldau.suite;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import kafka.network.ConnectionQuotas;
import kafka.network.SocketServer;
import kafka.server.BrokerServer;
import kafka.server.KafkaApis;
import kafka.server.KafkaConfig;
import kafka.server.SharedServer;
import org.apache.kafka.clients.admin.ConfigEntry.ConfigSource;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.requests.MetadataResponse.PartitionMetadata;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.server.BrokerLifecycleManager;

/** As much of Kafka's own broker object as can be had from outside; whatever else a test takes of it is a missing feature. */
public final class BrokerView {
    private static final Set<ConfigSource> DYNAMIC = Set.of(ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG);

    /** States of a connection that the broker has not closed: established, and closed by the other side alone. */
    private static final Set<String> OPEN = Set.of("01", "08");

    private final MoldauCluster cluster;
    private final int id;

    private BrokerView(MoldauCluster cluster, int id) {
        this.cluster = cluster;
        this.id = id;
    }

    static BrokerServer of(MoldauCluster cluster, int id) {
        BrokerView view = new BrokerView(cluster, id);
        return StandIn.of(BrokerServer.class, view::broker);
    }

    private Object broker(String method, Object[] args) {
        switch (method) {
            case "shutdown": cluster.shutdownBroker(id); return null;
            case "awaitShutdown": Waiting.until("broker " + id + " still runs", Waiting.METADATA_S, () -> cluster.isShutdown(id)); return null;
            case "startup": cluster.startBroker(id); return null;
            case "isShutdown": return cluster.isShutdown(id);
            // What Kafka calls a broker that has been shut down, as long as its object is there.
            case "brokerState": return cluster.isShutdown(id) ? BrokerState.SHUTTING_DOWN : BrokerState.RUNNING;
            case "config": return config();
            case "clusterId": return cluster.clusterId();
            case "boundPort": return cluster.port(id, ((ListenerName) args[0]).value());
            case "socketServer": return StandIn.of(SocketServer.class, this::sockets);
            case "sharedServer": return StandIn.of(SharedServer.class, this::shared);
            case "metadataCache": return StandIn.of(KRaftMetadataCache.class, this::metadata);
            case "dataPlaneRequestProcessor": return StandIn.of(KafkaApis.class, this::requests);
            case "lifecycleManager": return StandIn.of(BrokerLifecycleManager.class, this::lifecycle);
            case "logManager": return logs().manager();
            case "replicaManager": return logs().replicas();
            case "groupConfigManager": return StandIn.of(GroupConfigManager.class, this::groupConfigs);
            case "groupCoordinator": return StandIn.of(GroupCoordinator.class, this::coordinator);
            default: throw MissingFeature.internals("broker." + method + "()");
        }
    }

    private LogView logs() {
        return new LogView(cluster, id);
    }

    private Object sockets(String method, Object[] args) throws IOException {
        switch (method) {
            case "boundPort": return cluster.port(id, ((ListenerName) args[0]).value());
            case "connectionCount": return (int) cluster.ports(id).values().stream().mapToLong(BrokerView::connections).sum();
            case "connectionQuotas": return StandIn.of(ConnectionQuotas.class, this::connectionQuotas);
            default: throw MissingFeature.internals("socketServer()." + method + "()");
        }
    }

    /** Rates as the broker describes them. */
    private Object connectionQuotas(String method, Object[] args) {
        if (method.equals("connectionRateForIp"))
            return connectionRate(((InetAddress) args[0]).getHostAddress()).or(() -> connectionRate(null)).orElse(Integer.MAX_VALUE);
        throw MissingFeature.internals("socketServer().connectionQuotas()." + method + "()");
    }

    private Optional<Integer> connectionRate(String ip) {
        ClientQuotaFilterComponent component = ip == null
            ? ClientQuotaFilterComponent.ofDefaultEntity(ClientQuotaEntity.IP)
            : ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.IP, ip);
        return MoldauCluster.answer(() -> cluster.admin().describeClientQuotas(ClientQuotaFilter.containsOnly(List.of(component))).entities())
            .values().stream().map(quotas -> quotas.get("connection_creation_rate").intValue()).findFirst();
    }

    /** Those that the broker's side of the kernel has open on a port; all clients of a test have the same address. */
    private static long connections(int port) {
        String local = String.format(":%04X", port);
        return Stream.of("/proc/net/tcp", "/proc/net/tcp6").flatMap(BrokerView::lines).map(line -> line.trim().split("\\s+"))
            .filter(cells -> cells[1].endsWith(local) && OPEN.contains(cells[3])).count();
    }

    private static Stream<String> lines(String file) {
        try {
            return Files.readAllLines(Path.of(file)).stream();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private Object requests(String method, Object[] args) {
        if (method.equals("metadataCache") || method.equals("clusterId"))
            return broker(method, args);
        if (method.equals("brokerId"))
            return id;
        throw MissingFeature.internals("dataPlaneRequestProcessor()." + method + "()");
    }

    /** A broker that has started is one that others may use. */
    private Object lifecycle(String method, Object[] args) {
        if (method.equals("initialUnfenceFuture") && !cluster.isShutdown(id))
            return CompletableFuture.completedFuture(null);
        throw MissingFeature.kraft("lifecycleManager()." + method + "()");
    }

    /** There is no loader of metadata whose progress one could look at; ControllerView has waited for it. */
    private Object shared(String method, Object[] args) {
        if (method.equals("loader"))
            return null;
        throw MissingFeature.kraft("sharedServer()." + method + "()");
    }

    /** What the broker was started with, and what was changed since. */
    private KafkaConfig config() {
        Map<String, Object> values = new HashMap<>(cluster.properties(id));
        List.of("broker.id", "zookeeper.connect", "zookeeper.session.timeout.ms").forEach(values::remove);
        values.putAll(Map.of("node.id", String.valueOf(id), "process.roles", "broker", "controller.listener.names", cluster.controllerListener(),
            "controller.quorum.voters", "3000@localhost:1"));
        if (!cluster.isShutdown(id))
            values.putAll(cluster.describe(new ConfigResource(ConfigResource.Type.BROKER, String.valueOf(id)), DYNAMIC::contains));
        return new KafkaConfig(values, false);
    }

    private Object groupConfigs(String method, Object[] args) {
        if (method.equals("groupConfig"))
            return Optional.of(new GroupConfig(cluster.describe(new ConfigResource(ConfigResource.Type.GROUP, (String) args[0]))));
        throw MissingFeature.internals("groupConfigManager()." + method + "()");
    }

    private Object coordinator(String method, Object[] args) {
        Map<String, String> settings = cluster.properties(id);
        switch (method) {
            case "groupMetadataTopicConfigs": {
                Properties configs = new Properties();
                configs.putAll(Map.of("cleanup.policy", "compact", "compression.type", "producer",
                    "segment.bytes", settings.getOrDefault("offsets.topic.segment.bytes", "104857600")));
                return configs;
            }
            case "partitionFor":
                return Utils.abs(((String) args[0]).hashCode()) % Integer.parseInt(settings.getOrDefault("offsets.topic.num.partitions", "50"));
            case "groupConfig": return groupConfigs(method, args);
            default: throw MissingFeature.internals("groupCoordinator()." + method + "()");
        }
    }

    private Object metadata(String method, Object[] args) throws IOException {
        DirectMetadata metadata = cluster.metadata(id);
        switch (method) {
            case "numPartitions": return metadata.partitions((String) args[0]).map(List::size);
            case "contains": return args[0] instanceof TopicPartition tp ? metadata.partition(tp.topic(), tp.partition()).isPresent() : metadata.partitions((String) args[0]).isPresent();
            case "getTopicId": return metadata.topicIds().getOrDefault((String) args[0], Uuid.ZERO_UUID);
            case "topicNamesToIds": return metadata.topicIds();
            case "getAllTopics": return metadata.topicIds().keySet();
            case "hasAliveBroker": return metadata.brokerIds().contains(args[0]);
            case "getAliveBrokerNodes": return metadata.brokers();
            case "topicConfig": {
                Properties overrides = new Properties();
                overrides.putAll(cluster.describe(new ConfigResource(ConfigResource.Type.TOPIC, (String) args[0]), ConfigSource.DYNAMIC_TOPIC_CONFIG::equals));
                return overrides;
            }
            case "getLeaderAndIsr": return metadata.partition((String) args[0], (int) args[1]).map(BrokerView::leaderAndIsr);
            case "getPartitionLeaderEndpoint": return metadata.partition((String) args[0], (int) args[1]).map(p -> metadata.leader(p).orElse(Node.noNode()));
            default: throw MissingFeature.internals("metadataCache()." + method + "()");
        }
    }

    private static LeaderAndIsr leaderAndIsr(PartitionMetadata partition) {
        return new LeaderAndIsr(partition.leaderId.orElse(LeaderAndIsr.NO_LEADER), partition.leaderEpoch.orElse(0), partition.inSyncReplicaIds, LeaderRecoveryState.RECOVERED, 0);
    }
}
