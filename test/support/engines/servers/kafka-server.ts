import { Admin } from '@platformatic/kafka'
import { startContainer } from './container.ts'
import { freePort } from './free-port.ts'
import { addressInEnvironment, type ServerKind, type ServerSource } from './server.ts'

const docker: ServerSource = {
  name: 'Docker',
  async find() {
    const image = process.env['TXBOX_TEST_KAFKA_IMAGE'] ?? 'apache/kafka:4.1.0'
    // A broker sends its address to its clients, so that the port outside must be known before it starts.
    const port = await freePort()
    const container = await startContainer({
      image,
      port,
      hostPort: port,
      environment: {
        KAFKA_NODE_ID: '1',
        KAFKA_PROCESS_ROLES: 'broker,controller',
        KAFKA_CONTROLLER_QUORUM_VOTERS: '1@localhost:9093',
        KAFKA_CONTROLLER_LISTENER_NAMES: 'CONTROLLER',
        KAFKA_LISTENERS: `PLAINTEXT://0.0.0.0:${port},CONTROLLER://localhost:9093`,
        KAFKA_ADVERTISED_LISTENERS: `PLAINTEXT://localhost:${port}`,
        KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: 'CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT',
        KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: '1',
        KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: '1',
        KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: '1',
        KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: '0',
      },
      ready: { log: /Kafka Server started/, times: 1 },
    })
    if (container === undefined) return undefined
    const address = `localhost:${port}`
    return {
      url: address,
      description: `${await describeKafka(address)} (Docker image ${image})`,
      stop: container.stop,
    }
  },
}

export const kafkaServer: ServerKind = {
  title: 'Kafka',
  sources: [addressInEnvironment('TXBOX_TEST_KAFKA_URL', describeKafka), docker],
  remedy: 'Start Docker, or a Kafka, and set TXBOX_TEST_KAFKA_URL to its address, such as 127.0.0.1:9092.',
}

async function describeKafka(address: string): Promise<string> {
  const admin = new Admin({ clientId: 'txbox-test', bootstrapBrokers: [address], connectTimeout: 5000 })
  try {
    const { brokers } = await admin.metadata({ topics: [] })
    return `Kafka with ${brokers.size} brokers at ${address}`
  } finally {
    await admin.close()
  }
}
