// Writes the *.bin files beside it with Apache Kafka's own code, and reads batches back with it:
//
//     java -cp "$KAFKA_JARS/*" GoldenBatches.java write .
//     java -cp "$KAFKA_JARS/*" GoldenBatches.java read file...
//
// test_golden.py knows what write() puts in, and compares what read() prints.

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;

public class GoldenBatches {
    static final long BASE_TIME = 1_700_000_000_000L;

    public static void main(String[] args) throws Exception {
        if (args[0].equals("write")) {
            write(Path.of(args[1]));
        } else {
            for (int i = 1; i < args.length; i++) {
                read(Path.of(args[i]));
            }
        }
    }

    static void write(Path directory) throws Exception {
        for (CompressionType type : CompressionType.values()) {
            Compression codec = Compression.of(type).build();
            save(directory, type.name, batch(codec, TimestampType.CREATE_TIME, 1, true));
            if (type != CompressionType.NONE) {
                save(directory, type.name + "-large", batch(codec, TimestampType.CREATE_TIME, 40, false));
            }
        }
        save(directory, "log-append-time",
            batch(Compression.NONE, TimestampType.LOG_APPEND_TIME, 1, false));
        save(directory, "commit", MemoryRecords.withEndTransactionMarker(77, BASE_TIME, 5, 4711L, (short) 3,
            new EndTransactionMarker(ControlRecordType.COMMIT, 12)).buffer());
        save(directory, "abort", MemoryRecords.withEndTransactionMarker(78, BASE_TIME, 5, 4711L, (short) 3,
            new EndTransactionMarker(ControlRecordType.ABORT, 12)).buffer());
    }

    static ByteBuffer batch(Compression codec, TimestampType timestamps, int repeat, boolean transactional) {
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(ByteBuffer.allocate(1 << 20),
            RecordBatch.MAGIC_VALUE_V2, codec, timestamps, 1000L, BASE_TIME + 123, 4711L, (short) 3, 100,
            transactional, false, 9, 1 << 20);
        for (int i = 0; i < 40; i++) {
            byte[] key = i % 4 == 0 ? null : i % 4 == 1 ? new byte[0] : text("key-" + i);
            byte[] value = i % 7 == 3 ? null : text(("value-" + i + ";").repeat(i * repeat));
            Header[] headers = i % 5 != 0 ? Record.EMPTY_HEADERS : new Header[] {
                new RecordHeader("trace", new byte[] {(byte) i}), new RecordHeader("\u00fctf-8", null)};
            builder.append(new SimpleRecord(BASE_TIME + i * 17 - i % 3 * 50, key, value, headers));
        }
        return builder.build().buffer();
    }

    static void save(Path directory, String name, ByteBuffer buffer) throws Exception {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        Files.write(directory.resolve(name + ".bin"), bytes);
    }

    static void read(Path file) throws Exception {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(file)));
        for (RecordBatch batch : records.batches()) {
            batch.ensureValid();
            System.out.println(String.join(" ", "batch", file.getFileName().toString(),
                batch.compressionType().name, "" + batch.baseOffset(), "" + batch.lastOffset(),
                "" + batch.maxTimestamp(), batch.timestampType().name, "" + batch.producerId(),
                "" + batch.producerEpoch(), "" + batch.baseSequence(), "" + batch.partitionLeaderEpoch(),
                "" + batch.isTransactional(), "" + batch.isControlBatch()));
            for (Record record : batch) {
                StringBuilder line = new StringBuilder("record " + record.offset() + " " + record.timestamp());
                line.append(" ").append(hex(record.key())).append(" ").append(hex(record.value()));
                for (Header header : record.headers()) {
                    line.append(" ").append(header.key()).append("=").append(header.value() == null
                        ? "null" : HexFormat.of().formatHex(header.value()));
                }
                System.out.println(line);
            }
        }
    }

    static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return "null";
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return "0x" + HexFormat.of().formatHex(bytes);
    }

    static byte[] text(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
