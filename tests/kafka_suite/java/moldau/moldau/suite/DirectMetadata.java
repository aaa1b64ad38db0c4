package moldau.suite;

import java.io.IOException;
import java.util.List;
import java.util.Map;
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
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;

/**
 * What one broker knows of the cluster, asked of that broker: an {@code Admin} asks whichever it likes. Two that know the
 * same are equal.
 */
record DirectMetadata(TreeSet<Integer> brokers, TreeMap<String, List<String>> topics) {
    private static final int TIMEOUT_MS = 30_000;

    static DirectMetadata of(int port, Map<String, Object> clientSettings) throws IOException {
        Node broker = new Node(-1, "localhost", port);
        AdminClientConfig config = new AdminClientConfig(clientSettings);
        try (Metrics metrics = new Metrics();
             NetworkClient client = ClientUtils.createNetworkClient(config, "suite", metrics, "suite", new LogContext(), new ApiVersions(),
                 Time.SYSTEM, 1, TIMEOUT_MS, null, new ManualMetadataUpdater(), new DefaultHostResolver(), null, null)) {
            if (!NetworkClientUtils.awaitReady(client, broker, Time.SYSTEM, TIMEOUT_MS))
                throw new IOException("no connection to " + broker);
            var request = client.newClientRequest(broker.idString(), MetadataRequest.Builder.allTopics(), Time.SYSTEM.milliseconds(), true);
            return of((MetadataResponse) NetworkClientUtils.sendAndReceive(client, request, Time.SYSTEM).responseBody());
        }
    }

    private static DirectMetadata of(MetadataResponse response) {
        DirectMetadata metadata = new DirectMetadata(new TreeSet<>(), new TreeMap<>());
        response.brokers().forEach(node -> metadata.brokers.add(node.id()));
        for (var topic : response.topicMetadata())
            if (topic.error() == Errors.NONE)
                metadata.topics.put(topic.topic(), topic.partitionMetadata().stream()
                    .map(p -> p.partition() + " " + topic.topicId() + " " + p.leaderId + " " + p.leaderEpoch + " " + new TreeSet<>(p.inSyncReplicaIds)).sorted().toList());
        return metadata;
    }
}
