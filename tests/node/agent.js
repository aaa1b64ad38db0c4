// kafkajs behind a line of JSON in and a line of JSON out; bytes travel as base64.
// Run: node agent.js host:port
'use strict'

const readline = require('node:readline')
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = require('kafkajs')

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')

const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy }

const kafka = new Kafka({
  clientId: 'kafkajs',
  brokers: process.argv[2].split(','),
  logLevel: logLevel.NOTHING,
  connectionTimeout: 60000,
  requestTimeout: 60000,
  retry: { retries: 8 },
})
const admin = kafka.admin()

const bytes = text => (text === null ? null : Buffer.from(text, 'base64'))

function headersOf(sample) {
  const headers = {}
  for (const [name, value] of sample.headers) {
    headers[name] = name in headers ? [].concat(headers[name], bytes(value)) : bytes(value)
  }
  return headers
}

async function write({ topic, samples, codec }) {
  // The connection's default partitioner is not consulted: every record names partition 0.
  const producer = kafka.producer({ createPartitioner: () => () => 0, idempotent: true })
  await producer.connect()
  try {
    const [sent] = await producer.send({
      topic,
      acks: -1,
      compression: CODECS[codec],
      messages: samples.map(sample => ({
        key: bytes(sample.key),
        value: bytes(sample.value),
        headers: headersOf(sample),
        partition: 0,
        ...(sample.timestamp_ms === null ? {} : { timestamp: String(sample.timestamp_ms) }),
      })),
    })
    return samples.map((_, index) => Number(sent.baseOffset) + index)
  } finally {
    await producer.disconnect()
  }
}

async function describeConfig(type, resource, name) {
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: [{ type, name: resource, configNames: [name] }],
  })
  return resources[0].configEntries.find(entry => entry.configName === name).configValue
}

const operations = {
  write,
  create_topic: ({ topic, partitions, configs }) =>
    admin.createTopics({
      topics: [
        {
          topic,
          numPartitions: partitions,
          replicationFactor: 1,
          configEntries: Object.entries(configs).map(([name, value]) => ({ name, value })),
        },
      ],
    }),
  list_topics: () => admin.listTopics(),
  partition_count: async ({ topic }) => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    return topics[0].partitions.length
  },
  create_partitions: ({ topic, total }) =>
    admin.createPartitions({ topicPartitions: [{ topic, count: total }] }),
  topic_config: ({ topic, name }) => describeConfig(ConfigResourceTypes.TOPIC, topic, name),
  broker_config: async ({ name }) => {
    const { brokers } = await admin.describeCluster()
    return describeConfig(ConfigResourceTypes.BROKER, String(brokers[0].nodeId), name)
  },
  alter_topic_config: ({ topic, name, value }) =>
    admin.alterConfigs({
      validateOnly: false,
      resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name, value }] }],
    }),
  delete_records: async ({ topic, before }) => {
    await admin.fetchTopicOffsets(topic) // it only knows the leaders of topics that it has met
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: String(before) }] })
  },
  earliest_offset: async ({ topic }) => Number((await admin.fetchTopicOffsets(topic))[0].low),
  latest_offset: async ({ topic }) => Number((await admin.fetchTopicOffsets(topic))[0].high),
  offset_for_timestamp: async ({ topic, timestamp_ms: timestamp }) =>
    Number((await admin.fetchTopicOffsetsByTimestamp(topic, timestamp))[0].offset),
  node_ids: async () => (await admin.describeCluster()).brokers.map(broker => broker.nodeId),
  delete_topic: ({ topic }) => admin.deleteTopics({ topics: [topic] }),
}

async function answer(line) {
  const request = JSON.parse(line)
  try {
    const result = await operations[request.op](request)
    return { result: result === undefined ? null : result }
  } catch (failure) {
    const cause = failure.cause || failure
    const first = cause.errors ? cause.errors[0] : cause
    return { error: first.type || first.name, message: String(first.message) }
  }
}

async function main() {
  await admin.connect()
  for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write(JSON.stringify(await answer(line)) + '\n')
  }
  await admin.disconnect()
}

main()
