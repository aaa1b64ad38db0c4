package org.apache.kafka.common.test.junit;

import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import moldau.suite.ClusterShape;
import moldau.suite.MissingFeature;
import moldau.suite.MoldauCluster;
import moldau.suite.Waiting;

/** Stands in for Kafka's class of this name: the cluster of a test is Moldau processes. */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private final String name;
    private final ClusterConfig config;
    private final boolean combined;

    public RaftClusterInvocationContext(String name, ClusterConfig config, boolean combined) {
        this.name = name;
        this.config = config;
        this.combined = combined;
    }

    @Override
    public String getDisplayName(int index) {
        return name + " [" + index + "] Type=Raft-" + (combined ? "Combined" : "Isolated") + ", " + String.join(",", config.displayTags());
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        Instance instance = new Instance();
        return List.of((BeforeEachCallback) context -> {
            if (config.isAutoStart())
                instance.start();
        }, (AfterTestExecutionCallback) context -> instance.stop(), new ClusterInstanceParameterResolver(instance));
    }

    private class Instance implements ClusterInstance {
        private final MoldauCluster cluster = new MoldauCluster(new ClusterShape(config.numBrokers(), false, config.numDisksPerBroker(), config.brokerListenerName().value(),
            config.brokerSecurityProtocol().name, config.controllerListenerName().value(), asSettings()))
            .addAll(config.perServerOverrideProperties());

        /** The feature level group.version=0 is, for a broker without feature levels, a setting. */
        private Map<String, String> asSettings() {
            Map<String, String> settings = new HashMap<>(config.serverProperties());
            if (config.features().getOrDefault(Feature.GROUP_VERSION, (short) 1) == 0)
                settings.put("group.coordinator.rebalance.protocols", "classic");
            return settings;
        }

        private boolean started;
        private boolean stopped;

        @Override
        public void start() {
            if (started)
                return;
            started = true;
            cluster.start();
        }

        @Override
        public boolean started() {
            return started;
        }

        @Override
        public void stop() {
            if (stopped)
                return;
            stopped = true;
            cluster.close();
        }

        @Override
        public boolean stopped() {
            return stopped;
        }

        @Override
        public Type type() {
            return combined ? Type.CO_KRAFT : Type.KRAFT;
        }

        @Override
        public Map<Integer, KafkaBroker> brokers() {
            return new TreeMap<>(cluster.brokers());
        }

        @Override
        public Map<Integer, KafkaBroker> aliveBrokers() {
            return cluster.brokers().entrySet().stream().filter(e -> !cluster.isShutdown(e.getKey())).collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue));
        }

        @Override
        public Map<Integer, ControllerServer> controllers() {
            return new TreeMap<>() { // tests wait until all controllers know something: there are none to wait for
                @Override
                public ControllerServer get(Object id) {
                    throw MissingFeature.kraft("controllers()");
                }
            };
        }

        @Override
        public ClusterConfig config() {
            return config;
        }

        @Override
        public Set<Integer> controllerIds() {
            throw MissingFeature.kraft("controllerIds()");
        }

        @Override
        public Set<Integer> brokerIds() {
            return cluster.ids();
        }

        @Override
        public ListenerName clientListener() {
            return config.brokerListenerName();
        }

        @Override
        public ListenerName controllerListenerName() {
            return config.controllerListenerName();
        }

        @Override
        public String bootstrapServers() {
            return cluster.bootstrapServers();
        }

        @Override
        public String bootstrapControllers() {
            throw MissingFeature.kraft("bootstrapControllers()");
        }

        @Override
        public List<Integer> controllerBoundPorts() {
            throw MissingFeature.kraft("controllerBoundPorts()");
        }

        @Override
        public List<Integer> brokerBoundPorts() {
            return cluster.ids().stream().map(id -> cluster.port(id, clientListener().value())).toList();
        }

        @Override
        public String clusterId() {
            return cluster.clusterId();
        }

        @Override
        public Set<GroupProtocol> supportedGroupProtocols() {
            String asked = config.serverProperties().getOrDefault("group.coordinator.rebalance.protocols", "classic,consumer");
            boolean off = config.features().getOrDefault(Feature.GROUP_VERSION, (short) 1) == 0;
            return off || !asked.contains("consumer") ? Set.of(GroupProtocol.CLASSIC) : Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER);
        }

        @Override
        public Optional<FaultHandlerException> firstFatalException() {
            return Optional.empty();
        }

        @Override
        public Optional<FaultHandlerException> firstNonFatalException() {
            return Optional.empty();
        }

        @Override
        public void shutdownBroker(int id) {
            cluster.shutdownBroker(id);
        }

        @Override
        public void startBroker(int id) {
            cluster.startBroker(id);
        }

        @Override
        public void waitForReadyBrokers() {
            cluster.awaitBrokers();
        }

        @Override
        public void waitTopicCreation(String topic, int partitions) {
            if (partitions <= 0)
                throw new IllegalArgumentException("Partition count must be > 0, but was " + partitions);
            cluster.awaitTopic(topic, partitions);
        }

        @Override
        public void waitTopicDeletion(String topic) {
            cluster.awaitNoTopic(topic);
        }

        @Override
        public void ensureConsistentMetadata() {
            cluster.awaitConsistentMetadata();
        }

        @Override
        public void ensureConsistentMetadata(Collection<KafkaBroker> brokers, Collection<ControllerServer> controllers) {
            cluster.awaitConsistentMetadata();
        }

        @Override
        public List<Authorizer> authorizers() {
            throw MissingFeature.internals("authorizers()");
        }

        @Override
        public void waitAcls(AclBindingFilter filter, Collection<AccessControlEntry> entries) {
            Waiting.until("expected acls: " + entries, 15, () -> {
                try (Admin admin = admin()) {
                    Set<AccessControlEntry> now = admin.describeAcls(filter).values().get().stream().map(AclBinding::entry).collect(Collectors.toSet());
                    return now.equals(new HashSet<>(entries));
                }
            });
        }
    }
}
