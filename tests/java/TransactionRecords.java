import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;

import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.transaction.generated.TransactionLogKey;
import org.apache.kafka.coordinator.transaction.generated.TransactionLogValue;

/**
 * Prints records of __transaction_state as Kafka's own classes write them: a name, the key and the
 * value in hex. tests/unit/wire/stored/data/kafka_4_3_1_transaction_records.txt is its output:
 *
 *   java -cp '.cache/kafka-4.3.1/*' tests/java/TransactionRecords.java
 */
public class TransactionRecords {
    private static final long TIME = 1700000000000L;
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.US_ASCII);

    public static void main(String[] args) {
        print("bare", bare(), 1);
        print("bare_v0", bare(), 0);
        print("ongoing", ongoing(), 1);
        print("ongoing_v0", ongoing(), 0);
        print("two_producer_ids", ongoing().setPreviousProducerId(41).setNextProducerId(43)
            .setNextProducerEpoch((short) 0).setClientTransactionVersion((short) 2), 1);
    }

    private static TransactionLogValue bare() {
        return new TransactionLogValue().setProducerId(42).setProducerEpoch((short) 0)
            .setTransactionTimeoutMs(60000).setTransactionStatus((byte) 0).setTransactionPartitions(null)
            .setTransactionLastUpdateTimestampMs(TIME).setTransactionStartTimestampMs(-1);
    }

    private static TransactionLogValue ongoing() {
        return bare().setProducerEpoch((short) 7).setTransactionStatus((byte) 1)
            .setTransactionStartTimestampMs(TIME - 5).setTransactionPartitions(List.of(
                new TransactionLogValue.PartitionsSchema().setTopic("t\u00f6pic").setPartitionIds(List.of(0, 7)),
                new TransactionLogValue.PartitionsSchema().setTopic("b").setPartitionIds(List.of())));
    }

    private static void print(String name, TransactionLogValue value, int version) {
        byte[] key = MessageUtil.toCoordinatorTypePrefixedBytes(new TransactionLogKey().setTransactionalId("t\u00e4x"));
        byte[] content = MessageUtil.toVersionPrefixedBytes((short) version, value);
        HexFormat hex = HexFormat.of();
        OUT.println(name + " " + hex.formatHex(key) + " " + hex.formatHex(content));
    }
}
