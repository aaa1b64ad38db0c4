package kafka.server;

import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Stream;
import javax.security.auth.login.Configuration;
import kafka.integration.KafkaServerTestHarness;
import kafka.utils.Logging;
import kafka.utils.TestInfoUtils$;
import kafka.utils.TestUtils$;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.storage.Formatter;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.fault.MockFaultHandler;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.params.provider.Arguments;
import moldau.suite.ClusterShape;
import moldau.suite.ControllerView;
import moldau.suite.MissingFeature;
import moldau.suite.MoldauCluster;
import scala.Option;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Stands in for Kafka's class of this name, under every test of the older harness in Scala (KafkaServerTestHarness,
 * IntegrationTestHarness): no controller starts, and the brokers that a test creates are Moldau processes.
 */
@Tag("integration")
public abstract class QuorumTestHarness implements Logging {
    private final QuorumTestHarnessFaultHandlerFactory faultHandlers = new QuorumTestHarnessFaultHandlerFactory(new MockFaultHandler("quorumTestHarnessFaultHandler"));
    private String logIdent;
    private TestInfo testInfo;
    private MoldauCluster cluster;

    // --- What tests override, as Kafka's class has it ---

    public SecurityProtocol controllerListenerSecurityProtocol() {
        return SecurityProtocol.PLAINTEXT;
    }

    public Seq<SecurityProtocol> extraControllerSecurityProtocols() {
        return CollectionConverters.asScala(List.<SecurityProtocol>of());
    }

    public Seq<Properties> kraftControllerConfigs(TestInfo test) {
        return CollectionConverters.asScala(List.of(new Properties()));
    }

    public MetadataVersion metadataVersion() {
        return MetadataVersion.latestTesting();
    }

    public void addFormatterSettings(Formatter formatter) {
    }

    @BeforeEach
    public void setUp(TestInfo test) {
        testInfo = test;
        Exit.setExitProcedure((code, message) -> end("exit", code, message));
        Exit.setHaltProcedure((code, message) -> end("halt", code, message));
        if (metadataVersion() != MetadataVersion.latestTesting())
            throw MissingFeature.kraft("metadata.version " + metadataVersion());
    }

    private void end(String how, int code, String message) {
        tearDown();
        throw new RuntimeException(how + "(" + code + ", " + message + ") called!");
    }

    @AfterEach
    public void tearDown() {
        if (cluster != null)
            cluster.close();
        cluster = null;
        Exit.resetExitProcedure();
        Exit.resetHaltProcedure();
        TestUtils$.MODULE$.clearYammerMetrics();
        System.clearProperty("java.security.auth.login.config");
        Configuration.setConfiguration(null);
        faultHandler().maybeRethrowFirstException();
    }

    // --- Brokers and controllers ---

    public KafkaBroker createBroker(KafkaConfig config, Time time, boolean startup, Option<String> threadNamePrefix) {
        if (cluster == null)
            cluster = new MoldauCluster(shape(config));
        KafkaBroker broker = cluster.add(config.brokerId(), ClusterShape.asText(config.originals()));
        if (startup)
            broker.startup();
        return broker;
    }

    public Time createBroker$default$2() {
        return Time.SYSTEM;
    }

    public boolean createBroker$default$3() {
        return true;
    }

    public Option<String> createBroker$default$4() {
        return Option.empty();
    }

    /** With no broker yet. What the test sets for its controller is for all brokers, since one of them is the controller. */
    private ClusterShape shape(KafkaConfig config) {
        int asked = this instanceof KafkaServerTestHarness harness ? harness.configs().size() : 1;
        Map<String, String> common = ClusterShape.asText(kraftControllerConfigs(testInfo).head());
        return new ClusterShape(asked, !(this instanceof KafkaServerTestHarness), 0, config.interBrokerListenerName().value(), config.interBrokerSecurityProtocol().name, "CONTROLLER", common);
    }

    public ControllerServer controllerServer() {
        return ControllerView.of(cluster);
    }

    public Seq<ControllerServer> controllerServers() {
        return CollectionConverters.asScala(List.of(controllerServer()));
    }

    public void shutdownKRaftController() {
        throw MissingFeature.kraft("shutdownKRaftController()");
    }

    public QuorumTestHarnessFaultHandlerFactory faultHandlerFactory() {
        return faultHandlers;
    }

    public MockFaultHandler faultHandler() {
        return faultHandlers.faultHandler();
    }

    // --- Parameters of the test ---

    public Option<GroupProtocol> maybeGroupProtocolSpecified() {
        return TestInfoUtils$.MODULE$.maybeGroupProtocolSpecified(testInfo);
    }

    public GroupProtocol groupProtocolFromTestParameters() {
        Option<GroupProtocol> protocol = maybeGroupProtocolSpecified();
        if (protocol.isEmpty())
            throw new IllegalStateException("Please specify the \"groupProtocol\" parameter when writing the test");
        return protocol.get();
    }

    public static Stream<Arguments> getTestGroupProtocolParametersAll() {
        return QuorumTestHarness$.MODULE$.getTestGroupProtocolParametersAll();
    }

    public static Stream<Arguments> getTestGroupProtocolParametersClassicGroupProtocolOnly() {
        return QuorumTestHarness$.MODULE$.getTestGroupProtocolParametersClassicGroupProtocolOnly();
    }

    public static Stream<Arguments> getTestGroupProtocolParametersConsumerGroupProtocolOnly() {
        return QuorumTestHarness$.MODULE$.getTestGroupProtocolParametersConsumerGroupProtocolOnly();
    }

    // --- Threads that a test leaves behind ---

    @BeforeAll
    public static void setUpClass() {
        verifyNoUnexpectedThreads("@BeforeAll");
    }

    @AfterAll
    public static void tearDownClass() {
        verifyNoUnexpectedThreads("@AfterAll");
    }

    public static void verifyNoUnexpectedThreads(String context) {
        QuorumTestHarness$.MODULE$.verifyNoUnexpectedThreads(context);
    }

    // --- kafka.utils.Logging ---

    @Override
    public String logIdent() {
        return logIdent;
    }

    @Override
    public void logIdent_$eq(String ident) {
        logIdent = ident;
    }
}
