package moldau.suite;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.ApiVersions;
import org.apache.kafka.clients.ClientUtils;
import org.apache.kafka.clients.ManualMetadataUpdater;
import org.apache.kafka.clients.NetworkClient;
import org.apache.kafka.clients.NetworkClientUtils;
import org.apache.kafka.clients.DefaultHostResolver;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.requests.MetadataResponse.PartitionMetadata;
import org.apache.kafka.common.requests.MetadataResponse.TopicMetadata;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;

/** What one broker knows of the cluster, asked of that broker: an {@code Admin} asks whichever it likes. */
final class DirectMetadata {
    private static final int TIMEOUT_MS = 30_000;

    private final TreeMap<Integer, Node> brokers = new TreeMap<>();
    private final TreeMap<String, TopicMetadata> topics = new TreeMap<>();

    private DirectMetadata(MetadataResponse response) {
        response.brokers().forEach(node -> brokers.put(node.id(), node));
        for (TopicMetadata topic : response.topicMetadata())
            if (topic.error() == Errors.NONE)
                topics.put(topic.topic(), topic);
    }

    static DirectMetadata of(int port, Map<String, Object> clientSettings) throws IOException {
        Node broker = new Node(-1, "localhost", port);
        AdminClientConfig config = new AdminClientConfig(clientSettings);
        try (Metrics metrics = new Metrics();
             NetworkClient client = ClientUtils.createNetworkClient(config, "suite", metrics, "suite", new LogContext(), new ApiVersions(),
                 Time.SYSTEM, 1, TIMEOUT_MS, null, new ManualMetadataUpdater(), new DefaultHostResolver(), null, null)) {
            if (!NetworkClientUtils.awaitReady(client, broker, Time.SYSTEM, TIMEOUT_MS))
                throw new IOException("no connection to " + broker);
            var request = client.newClientRequest(broker.idString(), MetadataRequest.Builder.allTopics(), Time.SYSTEM.milliseconds(), true);
            return new DirectMetadata((MetadataResponse) NetworkClientUtils.sendAndReceive(client, request, Time.SYSTEM).responseBody());
        }
    }

    /** By id, in order. */
    List<Node> brokers() {
        return List.copyOf(brokers.values());
    }

    List<Integer> brokerIds() {
        return List.copyOf(brokers.keySet());
    }

    Map<String, Uuid> topicIds() {
        Map<String, Uuid> ids = new TreeMap<>();
        topics.forEach((name, topic) -> ids.put(name, topic.topicId()));
        return ids;
    }

    Optional<List<PartitionMetadata>> partitions(String topic) {
        return Optional.ofNullable(topics.get(topic)).map(TopicMetadata::partitionMetadata);
    }

    Optional<PartitionMetadata> partition(String topic, int partition) {
        return partitions(topic).flatMap(all -> all.stream().filter(p -> p.partition() == partition).findFirst());
    }

    Optional<Node> leader(PartitionMetadata partition) {
        return partition.leaderId.map(brokers::get);
    }

    /** The same brokers, topics, leaders and in-sync replicas. */
    boolean agreesWith(DirectMetadata other) {
        return brokerIds().equals(other.brokerIds()) && partitions().equals(other.partitions());
    }

    private List<String> partitions() {
        List<String> lines = new ArrayList<>();
        for (TopicMetadata topic : topics.values())
            topic.partitionMetadata().stream().map(p -> p.topicPartition + " " + topic.topicId() + " " + p.leaderId + " " + p.leaderEpoch + " " + new TreeSet<>(p.inSyncReplicaIds))
                .sorted().forEach(lines::add);
        return lines;
    }
}
