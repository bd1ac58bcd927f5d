import amqp from 'amqplib'
import { startContainer } from './container.ts'
import { addressInEnvironment, type ServerKind, type ServerSource } from './server.ts'

const listening: ServerSource = {
  name: 'a server at 127.0.0.1:5672',
  async find() {
    const url = 'amqp://guest:guest@127.0.0.1:5672'
    return { url, description: `${await describeRabbitmq(url)} (already listening)` }
  },
}

const docker: ServerSource = {
  name: 'Docker',
  async find() {
    const image = process.env['TXBOX_TEST_RABBITMQ_IMAGE'] ?? 'rabbitmq:4'
    const container = await startContainer({
      image,
      port: 5672,
      ready: { log: /Server startup complete/, times: 1 },
    })
    if (container === undefined) return undefined
    const url = `amqp://guest:guest@${container.address}`
    return {
      url,
      description: `${await describeRabbitmq(url)} (Docker image ${image})`,
      stop: container.stop,
    }
  },
}

export const rabbitmqServer: ServerKind = {
  title: 'RabbitMQ',
  sources: [addressInEnvironment('TXBOX_TEST_RABBITMQ_URL', describeRabbitmq), listening, docker],
  remedy: 'Install rabbitmq-server and start it, or start Docker, or set TXBOX_TEST_RABBITMQ_URL.',
}

async function describeRabbitmq(url: string): Promise<string> {
  const connection = await amqp.connect(url, { timeout: 5000 })
  try {
    const { version } = connection.connection.serverProperties
    const { host } = new URL(url)
    return `RabbitMQ ${version} at ${host}`
  } finally {
    await connection.close()
  }
}
