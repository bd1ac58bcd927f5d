import { importFromProject } from '../import-from-project.ts'

/** The packages that a user installs for a publisher: this command depends on none of them. */
const PACKAGES = {
  '@txbox/kafka': { install: '@txbox/kafka @platformatic/kafka', purpose: 'to publish to Kafka' },
  '@txbox/nats': {
    install: '@txbox/nats @nats-io/transport-node @nats-io/jetstream',
    purpose: 'to publish to NATS',
  },
  '@txbox/redis': { install: '@txbox/redis redis', purpose: 'to publish to Redis' },
  '@txbox/sqs': {
    install: '@txbox/sqs @aws-sdk/client-sqs @aws-sdk/client-sns',
    purpose: 'to publish to SQS or SNS',
  },
  '@txbox/webhook': { install: '@txbox/webhook', purpose: 'to publish webhooks' },
  '@txbox/pg-boss': { install: '@txbox/pg-boss pg-boss', purpose: 'to publish to pg-boss' },
  'pg-boss': { install: '@txbox/pg-boss pg-boss', purpose: 'to publish to pg-boss' },
  '@txbox/cloudevents': { install: '@txbox/cloudevents', purpose: 'for --cloudevents' },
} as const

export type BrokerPackage = keyof typeof PACKAGES

/**
 * Loads a package from the user's project.
 *
 * @param load imports a package, or throws an error with the command that installs it.
 */
export async function loadPackage(
  name: BrokerPackage,
  load = importFromProject,
): Promise<Readonly<Record<string, unknown>>> {
  const { install, purpose } = PACKAGES[name]
  return (await load(name, `npm install ${install}`, purpose)) as Readonly<Record<string, unknown>>
}
