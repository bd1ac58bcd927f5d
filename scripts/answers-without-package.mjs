// The output of the command where a package is not installed, with the command that installs it. `{project}` is the folder.

/** Checked under each package manager. */
export const WITHOUT_DRIVER = [
  {
    args: ['status', '--database', 'mysql://root@127.0.0.1/none'],
    answer: lacking('mysql2', 'to connect to MySQL or MariaDB', 'mysql2'),
  },
  publishing('amqp://localhost', '@txbox/rabbitmq', 'RabbitMQ', 'amqplib'),
]

/** For each other URL of `--publisher`, and for the options that need a package. */
export const WITHOUT_PACKAGE = [
  publishing('kafka://localhost', '@txbox/kafka', 'Kafka', '@platformatic/kafka'),
  publishing('kafka+ssl://localhost', '@txbox/kafka', 'Kafka', '@platformatic/kafka'),
  publishing('nats://localhost', '@txbox/nats', 'NATS', '@nats-io/transport-node @nats-io/jetstream'),
  publishing('tls://localhost', '@txbox/nats', 'NATS', '@nats-io/transport-node @nats-io/jetstream'),
  // txbox itself contains @txbox/redis.
  ...['redis://localhost', 'rediss://localhost'].map((url) => ({
    args: ['relay', '--publisher', url, '--check'],
    answer:
      "The option 'url' needs node-redis, which is not installed: npm install redis. Or pass a client by the option 'client'.",
  })),
  publishing('sqs:', '@txbox/sqs', 'SQS or SNS', '@aws-sdk/client-sqs @aws-sdk/client-sns'),
  publishing('sns:', '@txbox/sqs', 'SQS or SNS', '@aws-sdk/client-sqs @aws-sdk/client-sns'),
  publishing('pg-boss:', '@txbox/pg-boss', 'pg-boss', 'pg-boss'),
  ...['https://shop.example', 'webhook:'].map((url) => ({
    args: ['relay', '--publisher', url],
    answer: lacking('@txbox/webhook', 'to publish webhooks', '@txbox/webhook'),
  })),
  {
    args: ['relay', '--publisher', 'stdout:', '--cloudevents', '/shop'],
    answer: lacking('@txbox/cloudevents', 'for --cloudevents', '@txbox/cloudevents'),
  },
]

function publishing(url, name, broker, clients) {
  return {
    args: ['relay', '--publisher', url],
    answer: lacking(name, `to publish to ${broker}`, `${name} ${clients}`),
  }
}

function lacking(name, purpose, packages) {
  return `${name} is not installed in {project}, and is needed ${purpose}: run 'npm install ${packages}'.`
}
