#!/usr/bin/env node
// Use only syntax that every Node.js understands here: static imports are parsed before this code runs.
const { startTxbox } = await import('@txbox/command')

await startTxbox({
  calledAs: 'npx txbox',
  drivers: {
    pg: () => fromProject('pg', 'pg', 'to connect to PostgreSQL'),
    mysql2: () => fromProject('mysql2', 'mysql2', 'to connect to MySQL or MariaDB'),
    '@txbox/rabbitmq': () =>
      fromProject('@txbox/rabbitmq', '@txbox/rabbitmq amqplib', 'to publish to RabbitMQ'),
  },
})

async function fromProject(name: string, packages: string, purpose: string): Promise<unknown> {
  const { importFromProject } = await import('@txbox/command/import-from-project')
  return importFromProject(name, `npm install ${packages}`, purpose)
}
