import { connect } from '@nats-io/transport-node'
import { addressInEnvironment, type ServerKind, type ServerSource } from './server.ts'
import { startContainer } from './container.ts'

const listening: ServerSource = {
  name: 'a server at 127.0.0.1:4222',
  async find() {
    const url = 'nats://127.0.0.1:4222'
    return { url, description: `${await describeNats(url)} (already listening)` }
  },
}

const docker: ServerSource = {
  name: 'Docker',
  async find() {
    const image = process.env['TXBOX_TEST_NATS_IMAGE'] ?? 'nats:2'
    const container = await startContainer({
      image,
      port: 4222,
      command: ['-js'],
      ready: { log: /Server is ready/, times: 1 },
    })
    if (container === undefined) return undefined
    const url = `nats://${container.address}`
    return {
      url,
      description: `${await describeNats(url)} (Docker image ${image})`,
      stop: container.stop,
    }
  },
}

export const natsServer: ServerKind = {
  title: 'NATS with JetStream',
  sources: [addressInEnvironment('TXBOX_TEST_NATS_URL', describeNats), listening, docker],
  remedy: 'Install nats-server and start it with -js, or start Docker, or set TXBOX_TEST_NATS_URL.',
}

async function describeNats(url: string): Promise<string> {
  const connection = await connect({ servers: url, timeout: 5000, reconnect: false })
  try {
    const { version, jetstream } = connection.info!
    if (jetstream !== true) throw new Error('JetStream is not enabled')
    return `NATS ${version} at ${new URL(url).host}`
  } finally {
    await connection.close()
  }
}
