package moldau.suite;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.util.AbstractMap;
import java.util.AbstractSet;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import kafka.network.ConnectionQuotas;
import kafka.network.SocketServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConfigEntry.ConfigSource;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.MetadataCache;
import sun.reflect.ReflectionFactory;

/** As much of Kafka's own broker object as can be had from outside; whatever else a test takes of it is a missing feature. */
public final class BrokerView {
    private static final Set<ConfigSource> DYNAMIC = Set.of(ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG);

    private final MoldauCluster cluster;
    private final int id;

    private BrokerView(MoldauCluster cluster, int id) {
        this.cluster = cluster;
        this.id = id;
    }

    static KafkaBroker of(MoldauCluster cluster, int id) {
        BrokerView view = new BrokerView(cluster, id);
        return proxy(KafkaBroker.class, (self, method, args) -> method.getName().equals("equals") ? self == args[0] : view.broker(method.getName(), args));
    }

    private static <T> T proxy(Class<T> type, InvocationHandler handler) {
        return type.cast(Proxy.newProxyInstance(BrokerView.class.getClassLoader(), new Class<?>[] {type}, handler));
    }

    private Object broker(String method, Object[] args) {
        switch (method) {
            case "shutdown": cluster.shutdownBroker(id); return null;
            case "awaitShutdown": Waiting.until("broker " + id + " still runs", Waiting.METADATA_S, () -> cluster.isShutdown(id)); return null;
            case "startup": cluster.startBroker(id); return null;
            case "isShutdown": return cluster.isShutdown(id);
            case "brokerState": return cluster.isShutdown(id) ? BrokerState.NOT_RUNNING : BrokerState.RUNNING;
            case "config": return config();
            case "clusterId": return cluster.clusterId();
            case "boundPort": return cluster.port(id, ((ListenerName) args[0]).value());
            case "metadataCache": return proxy(MetadataCache.class, (self, called, arguments) -> metadata(called.getName(), arguments));
            case "groupCoordinator": return proxy(GroupCoordinator.class, (self, called, arguments) -> coordinator(called.getName(), arguments));
            case "socketServer": return socketServer();
            case "toString": return "Moldau broker " + id;
            case "hashCode": return id;
            default: throw MissingFeature.internals("broker." + method + "()");
        }
    }

    /** What the broker was started with, and what was changed since. */
    private KafkaConfig config() {
        Map<String, Object> values = new HashMap<>(cluster.properties(id));
        values.remove("broker.id");
        values.remove("zookeeper.connect");
        values.putAll(Map.of("node.id", String.valueOf(id), "process.roles", "broker", "controller.listener.names", cluster.controllerListener(),
            "controller.quorum.voters", "3000@localhost:1"));
        if (!cluster.isShutdown(id)) {
            ConfigResource resource = new ConfigResource(ConfigResource.Type.BROKER, String.valueOf(id));
            for (ConfigEntry entry : MoldauCluster.answer(() -> cluster.admin().describeConfigs(List.of(resource)).all()).get(resource).entries())
                if (entry.value() != null && DYNAMIC.contains(entry.source()))
                    values.put(entry.name(), entry.value());
        }
        return new KafkaConfig(values, false);
    }

    /** Only its connection quotas, which are what the broker describes. */
    private SocketServer socketServer() {
        try {
            Constructor<?> nothing = ReflectionFactory.getReflectionFactory().newConstructorForSerialization(SocketServer.class, Object.class.getDeclaredConstructor());
            SocketServer server = (SocketServer) nothing.newInstance();
            Field quotas = SocketServer.class.getDeclaredField("connectionQuotas");
            quotas.setAccessible(true);
            quotas.set(server, new ConnectionQuotas(config(), Time.SYSTEM, new Metrics()) {
                @Override
                public int connectionRateForIp(InetAddress ip) {
                    return connectionRate(ip.getHostAddress()).or(() -> connectionRate(null)).orElse(Integer.MAX_VALUE);
                }
            });
            return server;
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private Optional<Integer> connectionRate(String ip) {
        ClientQuotaFilterComponent component = ip == null
            ? ClientQuotaFilterComponent.ofDefaultEntity(ClientQuotaEntity.IP)
            : ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.IP, ip);
        return MoldauCluster.answer(() -> cluster.admin().describeClientQuotas(ClientQuotaFilter.containsOnly(List.of(component))).entities())
            .values().stream().map(quotas -> quotas.get("connection_creation_rate").intValue()).findFirst();
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
            case "toString": return "group coordinator of Moldau broker " + id;
            default: throw MissingFeature.internals("groupCoordinator()." + method + "()");
        }
    }

    private Object metadata(String method, Object[] args) {
        switch (method) {
            case "numPartitions": return cluster.topic((String) args[0]).map(topic -> topic.partitions().size());
            case "contains": return args[0] instanceof TopicPartition tp ? partition(tp.topic(), tp.partition()).isPresent() : cluster.topic((String) args[0]).isPresent();
            case "getTopicId": return cluster.topic((String) args[0]).map(TopicDescription::topicId).orElse(Uuid.ZERO_UUID);
            case "getAllTopics": return MoldauCluster.answer(() -> cluster.admin().listTopics(new ListTopicsOptions().listInternal(true)).names());
            case "hasAliveBroker": return nodes().stream().anyMatch(node -> args[0].equals(node.id()));
            case "getAliveBrokerNodes": return nodes();
            case "getLeaderAndIsr":
                return partition((String) args[0], (int) args[1]).map(p -> new LeaderAndIsr(p.leader() == null ? -1 : p.leader().id(), p.isr().stream().map(Node::id).toList()));
            case "getPartitionLeaderEndpoint": return partition((String) args[0], (int) args[1]).map(TopicPartitionInfo::leader);
            case "toString": return "metadata of Moldau broker " + id;
            default: throw MissingFeature.internals("metadataCache()." + method + "()");
        }
    }

    private List<Node> nodes() {
        return new ArrayList<>(MoldauCluster.answer(() -> cluster.admin().describeCluster().nodes()));
    }

    private Optional<TopicPartitionInfo> partition(String topic, int partition) {
        return cluster.topic(topic).flatMap(t -> t.partitions().stream().filter(p -> p.partition() == partition).findFirst());
    }

    /** A map with the ids of brokers for keys, and for values objects that exist only inside Kafka's. */
    public static <V> Map<Integer, V> idsOnly(Set<Integer> ids, String what) {
        return new AbstractMap<>() {
            @Override
            public Set<Entry<Integer, V>> entrySet() {
                return new AbstractSet<>() {
                    @Override
                    public Iterator<Entry<Integer, V>> iterator() {
                        return ids.stream().map(id -> (Entry<Integer, V>) new SimpleEntry<Integer, V>(id, null) {
                            @Override
                            public V getValue() {
                                throw MissingFeature.internals(what);
                            }
                        }).iterator();
                    }

                    @Override
                    public int size() {
                        return ids.size();
                    }
                };
            }
        };
    }
}
