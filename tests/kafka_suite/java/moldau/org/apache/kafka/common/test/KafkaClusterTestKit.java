package org.apache.kafka.common.test;

import java.util.HashMap;
import java.util.Map;
import java.util.stream.Collectors;
import kafka.raft.KafkaRaftManager;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import moldau.suite.ClusterShape;
import moldau.suite.MissingFeature;
import moldau.suite.MoldauCluster;

/** Stands in for Kafka's class of this name, under EmbeddedKafkaCluster and others: the brokers are Moldau processes. */
public class KafkaClusterTestKit implements AutoCloseable {
    public static class Builder {
        private final TestKitNodes nodes;
        private final Map<String, Object> properties = new HashMap<>();

        public Builder(TestKitNodes nodes) {
            this.nodes = nodes;
        }

        public Builder setConfigProp(String key, Object value) {
            properties.put(key, value);
            return this;
        }

        public Builder setStandalone(boolean standalone) {
            return this;
        }

        public Builder setInitialVoterSet(Map<Integer, Uuid> voters) {
            return this;
        }

        public Builder setDeleteOnClose(boolean delete) {
            return this;
        }

        public KafkaClusterTestKit build() throws Exception {
            return new KafkaClusterTestKit(nodes, properties);
        }
    }

    private final TestKitNodes nodes;
    private final MoldauCluster cluster;
    private final MockFaultHandler fatal = new MockFaultHandler("fatal"), other = new MockFaultHandler("other");

    private KafkaClusterTestKit(TestKitNodes nodes, Map<String, Object> properties) {
        this.nodes = nodes;
        int disks = nodes.brokerNodes().values().stream().mapToInt(n -> n.logDataDirectories().size()).max().orElse(1);
        Map<Integer, Map<String, String>> own = nodes.brokerNodes().entrySet().stream().collect(Collectors.toMap(Map.Entry::getKey, e -> e.getValue().propertyOverrides()));
        cluster = new MoldauCluster(new ClusterShape(nodes.brokerNodes().size(), false, disks, nodes.brokerListenerName().value(), nodes.brokerListenerProtocol().name,
            nodes.controllerListenerName().value(), ClusterShape.asText(properties))).addAll(own);
    }

    public void format() throws Exception {
    }

    public void startup() {
        cluster.start();
    }

    public void waitForReadyBrokers() {
        cluster.awaitBrokers();
    }

    public Admin admin() {
        return admin(Map.of());
    }

    public Admin admin(Map<String, Object> configs) {
        return admin(configs, false);
    }

    public Admin admin(Map<String, Object> configs, boolean controllers) {
        if (controllers)
            throw MissingFeature.kraft("bootstrapControllers()");
        Map<String, Object> all = new HashMap<>(configs);
        all.putIfAbsent("bootstrap.servers", bootstrapServers());
        return Admin.create(all);
    }

    public String bootstrapServers() {
        return cluster.bootstrapServers();
    }

    public String bootstrapControllers() {
        throw MissingFeature.kraft("bootstrapControllers()");
    }

    public Map<Integer, ControllerServer> controllers() {
        throw MissingFeature.kraft("controllers()");
    }

    public Controller waitForActiveController() {
        throw MissingFeature.kraft("waitForActiveController()");
    }

    public Map<Integer, BrokerServer> brokers() {
        return cluster.brokers();
    }

    public Map<Integer, KafkaRaftManager<ApiMessageAndVersion>> raftManagers() {
        throw MissingFeature.kraft("raftManagers()");
    }

    public TestKitNodes nodes() {
        return nodes;
    }

    public MockFaultHandler fatalFaultHandler() {
        return fatal;
    }

    public MockFaultHandler nonFatalFaultHandler() {
        return other;
    }

    @Override
    public void close() {
        cluster.close();
    }
}
