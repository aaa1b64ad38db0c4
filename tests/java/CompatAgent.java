import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's Java client behind a line of JSON in and a line of JSON out, so that one JVM serves all tests of a session.
 * Bytes travel as base64. Run from source: {@code java -cp jars CompatAgent.java host:port}.
 */
public final class CompatAgent {
    private static final Duration READ_TIMEOUT = Duration.ofSeconds(120);
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String bootstrap;
    private final Admin admin;

    private CompatAgent(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    public static void main(String[] args) throws Exception {
        CompatAgent agent = new CompatAgent(args[0]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("result", agent.run(JSON.readTree(line)));
            } catch (Exception failure) {
                Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
                answer.put("error", Errors.forException(cause).name());
                answer.put("message", String.valueOf(cause));
            }
            out.println(JSON.writeValueAsString(answer));
        }
        agent.admin.close(Duration.ofSeconds(5));
    }

    private JsonNode run(JsonNode request) throws Exception {
        String topic = request.path("topic").asText();
        switch (request.get("op").asText()) {
            case "write": return write(topic, request);
            case "read": return read(topic, request);
            case "create_topic": {
                NewTopic created = new NewTopic(topic, request.get("partitions").asInt(), (short) -1);
                created.configs(strings(request.get("configs")));
                admin.createTopics(List.of(created)).all().get();
                return null;
            }
            case "list_topics": return JSON.valueToTree(admin.listTopics().names().get());
            case "partition_count":
                return JSON.valueToTree(
                    admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size());
            case "create_partitions":
                admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(request.get("total").asInt()))).all().get();
                return null;
            case "topic_config":
                return config(new ConfigResource(ConfigResource.Type.TOPIC, topic), request.get("name").asText());
            case "broker_config": {
                Node node = admin.describeCluster().nodes().get().iterator().next();
                return config(
                    new ConfigResource(ConfigResource.Type.BROKER, node.idString()), request.get("name").asText());
            }
            case "alter_topic_config": {
                ConfigEntry entry = new ConfigEntry(request.get("name").asText(), request.get("value").asText());
                Collection<AlterConfigOp> changes = List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET));
                admin.incrementalAlterConfigs(
                    Map.of(new ConfigResource(ConfigResource.Type.TOPIC, topic), changes)).all().get();
                return null;
            }
            case "delete_records":
                admin.deleteRecords(Map.of(
                    new TopicPartition(topic, 0), RecordsToDelete.beforeOffset(request.get("before").asLong())))
                    .all().get();
                return null;
            case "earliest_offset": return offset(topic, OffsetSpec.earliest());
            case "latest_offset": return offset(topic, OffsetSpec.latest());
            case "max_timestamp_offset": return offset(topic, OffsetSpec.maxTimestamp());
            case "offset_for_timestamp":
                return offset(topic, OffsetSpec.forTimestamp(request.get("timestamp_ms").asLong()));
            case "node_ids":
                return JSON.valueToTree(admin.describeCluster().nodes().get().stream().map(Node::id).toList());
            case "log_size": {
                int node = admin.describeCluster().nodes().get().iterator().next().id();
                TopicPartition partition = new TopicPartition(topic, 0);
                return JSON.valueToTree(admin.describeLogDirs(List.of(node)).allDescriptions().get().get(node).values()
                    .stream().filter(dir -> dir.replicaInfos().containsKey(partition))
                    .mapToLong(dir -> dir.replicaInfos().get(partition).size()).sum());
            }
            case "move_replica": {
                int node = admin.describeCluster().nodes().get().iterator().next().id();
                TopicPartitionReplica replica = new TopicPartitionReplica(topic, 0, node);
                admin.alterReplicaLogDirs(Map.of(replica, request.get("directory").asText())).all().get();
                return null;
            }
            case "replica_directory": {
                int node = admin.describeCluster().nodes().get().iterator().next().id();
                TopicPartitionReplica replica = new TopicPartitionReplica(topic, 0, node);
                return JSON.valueToTree(
                    admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica).getCurrentReplicaLogDir());
            }
            case "producer_ids":
                return JSON.valueToTree(admin.describeProducers(List.of(new TopicPartition(topic, 0))).all().get()
                    .get(new TopicPartition(topic, 0)).activeProducers().stream().map(state -> state.producerId()).toList());
            case "delete_topic":
                admin.deleteTopics(List.of(topic)).all().get();
                return null;
            default: throw new IllegalArgumentException("unknown operation " + request.get("op"));
        }
    }

    private JsonNode write(String topic, JsonNode request) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("compression.type", request.get("codec").asText());
        settings.put("max.request.size", request.get("max_request_bytes").asInt());
        settings.put("acks", "all");
        settings.put("linger.ms", 20);
        settings.put("batch.size", 65536);
        ArrayNode offsets = JSON.createArrayNode();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode sample : request.get("samples")) {
                JsonNode timestamp = sample.get("timestamp_ms");
                ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                    topic, 0, timestamp.isNull() ? null : Long.valueOf(timestamp.asLong()),
                    bytes(sample.get("key")), bytes(sample.get("value")));
                for (JsonNode header : sample.get("headers")) {
                    record.headers().add(header.get(0).asText(), bytes(header.get(1)));
                }
                sent.add(producer.send(record));
            }
            for (Future<RecordMetadata> future : sent) {
                offsets.add(future.get().offset());
            }
        }
        return offsets;
    }

    private JsonNode read(String topic, JsonNode request) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", request.get("committed").asBoolean() ? "read_committed" : "read_uncommitted");
        settings.put("fetch.max.wait.ms", "100");
        int count = request.get("count").asInt();
        ArrayNode samples = JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long deadline = System.nanoTime() + READ_TIMEOUT.toNanos();
            while (samples.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    if (samples.size() < count) {
                        samples.add(sample(record));
                    }
                }
            }
        }
        return samples;
    }

    private static ObjectNode sample(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode sample = JSON.createObjectNode();
        sample.put("key", text(record.key()));
        sample.put("value", text(record.value()));
        sample.put("timestamp_ms", record.timestamp());
        ArrayNode headers = sample.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(text(header.value()));
        }
        return sample;
    }

    private JsonNode config(ConfigResource resource, String name) throws Exception {
        return JSON.valueToTree(admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name).value());
    }

    private JsonNode offset(String topic, OffsetSpec spec) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        return JSON.valueToTree(admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get().offset());
    }

    private static Map<String, String> strings(JsonNode node) {
        Map<String, String> result = new HashMap<>();
        Optional.ofNullable(node).ifPresent(n -> n.fields().forEachRemaining(e -> result.put(e.getKey(), e.getValue().asText())));
        return result;
    }

    private static byte[] bytes(JsonNode node) {
        return node.isNull() ? null : Base64.getDecoder().decode(node.asText());
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
