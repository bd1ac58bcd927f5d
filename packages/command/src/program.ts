import { Command, Option } from 'commander'
import { addDeadLetters } from './add-dead-letters.ts'
import { addConsumers } from './consumers-program.ts'
import { doctorCommand } from './doctor-command.ts'
import { gcCommand } from './gc-command.ts'
import { migrateCommand } from './migrate-command.ts'
import type { Installation } from './installation.ts'
import { interval, minutes, port, retention, seconds, wholeNumber } from './option-values.ts'
import { readVersion } from './read-version.ts'
import { relayCommand } from './relay-command.ts'
import { statusCommand } from './status-command.ts'
import { EXIT_CODES, examples, withDatabase, withUsageErrors } from './with-database.ts'

const THIRTY_DAYS_MS = 2_592_000_000

/** Creates the command line. A command throws instead of ending the process. */
export function createProgram(installation: Installation): Command {
  const program = withUsageErrors(new Command(installation.calledAs))
    .description(
      "Makes a message's effect happen once: manages the tables, relay, garbage collection and dead letters of txbox.",
    )
    .version(readVersion())
    .addHelpText('after', EXIT_CODES)
  addMigrate(program, installation)
  addRelay(program, installation)
  addGc(program, installation)
  addStatus(program, installation)
  addConsumers(program, installation)
  addDeadLetters(program, installation)
  addDoctor(program, installation)
  return program
}

function addMigrate(program: Command, installation: Installation): void {
  withDatabase(program, 'migrate', installation)
    .description('create the tables, or update them to the revision of this version')
    .option('--dry-run', 'only list what would be applied')
    .addOption(
      new Option(
        '--print',
        'write the SQL to standard output instead of running it; needs no database',
      ).conflicts('dryRun'),
    )
    .addHelpText(
      'after',
      examples(
        installation,
        'migrate --database postgres://user@localhost/shop',
        'migrate --dry-run',
        'migrate --schema messaging --print | psql -1',
        'migrate --prefix messaging_ --print | mysql shop',
      ),
    )
    .action(migrateCommand)
}

function addRelay(program: Command, installation: Installation): void {
  withHealth(withPublisher(withDatabase(program, 'relay', installation)))
    .description('publish the messages of the outbox, until SIGTERM or SIGINT')
    .option('--check', 'only connect to the database and the broker; fails if either cannot be used')
    .option(
      '--topic-map <file>',
      'a JSON object from topics to the topics that stand in for them; * is for all others',
    )
    .option(
      '--cloudevents <source>',
      'publish CloudEvents with this source; the mode may follow behind a comma: binary or structured',
    )
    .option('--drain', 'publish the messages that are due now, then exit')
    .option('--timeout <seconds>', 'with --drain: fail if draining takes longer', seconds)
    .option('--batch-size <messages>', 'maximum number of messages in one batch (default: 1000)', wholeNumber)
    .option('--batch-bytes <bytes>', 'maximum payload bytes in one batch (default: 4 MiB)', wholeNumber)
    .addOption(
      new Option(
        '--wakeup <how>',
        "'auto' also polls when a transaction notifies of messages, where it can listen; 'notify' must; 'poll' only polls (default: auto)",
      ).choices(['auto', 'poll', 'notify']),
    )
    .option(
      '--lease-ms <ms>',
      'duration of a lease; the shards of a relay that dies wait this long (default: 10000)',
      wholeNumber,
    )
    .option('--poll-min-ms <ms>', 'polling interval while there are messages (default: 20)', wholeNumber)
    .option(
      '--poll-max-ms <ms>',
      'polling interval while there are no messages (default: 500 while a connection listens, else 100)',
      wholeNumber,
    )
    .option('--owner <name>', 'the name of this relay in the table of leases')
    .option('--stop-timeout-ms <ms>', 'maximum time to finish what is in flight', wholeNumber, 10_000)
    .option(
      '--log-interval-ms <ms>',
      'interval between log lines with the number of published messages',
      interval,
      60_000,
    )
    .addHelpText(
      'after',
      examples(
        installation,
        'relay --publisher amqp://broker --health-port 8080',
        'relay --publisher kafka://kafka-1,kafka-2 --check',
        'relay --publisher amqp://broker --health-port 8080 --metrics',
        'relay --publisher stdout: --drain --timeout 30 | jq .topic',
      ),
    )
    .action(relayCommand)
}

function addGc(program: Command, installation: Installation): void {
  withHealth(withDatabase(program, 'gc', installation))
    .description('remove expired claims, and dead letters whose retention has passed')
    .option('--dry-run', 'only show how many would be removed')
    .option('--interval-ms <ms>', 'collect at this interval, until SIGTERM or SIGINT', wholeNumber)
    .option('--batch-size <rows>', 'maximum number of rows in one transaction (default: 1000)', wholeNumber)
    .option('--pause-ms <ms>', 'pause between two batches (default: 50)', wholeNumber)
    .option(
      '--dead-letter-retention-ms <ms>',
      "how long dead letters are kept; 'forever' never removes them",
      retention,
      THIRTY_DAYS_MS,
    )
    .addHelpText(
      'after',
      `${examples(
        installation,
        'gc --dry-run',
        'gc --interval-ms 60000 --dead-letter-retention-ms forever',
      )}\nA crontab line:\n  * * * * *  ${installation.calledAs} gc --json >> /var/log/txbox-gc.log\n`,
    )
    .action(gcCommand)
}

function addStatus(program: Command, installation: Installation): void {
  withDatabase(program, 'status', installation)
    .description(
      'show the backlog, parked messages, dead letters, local consumers, relays and their leases, the inbox, the last collection',
    )
    .option('--watch [seconds]', 'refresh at this interval, until Ctrl-C (default: 2)', seconds)
    .addHelpText('after', examples(installation, 'status', 'status --watch', 'status --json | jq .oldestDue'))
    .action(statusCommand)
}

function addDoctor(program: Command, installation: Installation): void {
  withPublisher(withDatabase(program, 'doctor', installation), false)
    .description(
      'check server, tables, traffic and publisher, and say what to do; fails if there is a problem',
    )
    .option(
      '--oldest-due <minutes>',
      'report a problem if a message has been due for longer than this without being delivered',
      minutes,
      10,
    )
    .option(
      '--long-transaction-ms <ms>',
      'report open transactions that are older than this',
      wholeNumber,
      60_000,
    )
    .addHelpText(
      'after',
      examples(installation, 'doctor', 'doctor --publisher amqp://broker', 'doctor --json | jq .healthy'),
    )
    .action(doctorCommand)
}

function withHealth(command: Command): Command {
  return command
    .option('--health-port <port>', 'serve GET /livez and /readyz on this port', port)
    .option('--health-host <address>', 'the address on which --health-port listens', '0.0.0.0')
    .option('--metrics', 'serve GET /metrics for Prometheus on the health port as well')
}

function withPublisher(command: Command, mandatory = true): Command {
  return command
    .addOption(
      new Option(
        '--publisher <url>',
        'the destination: amqp://…, kafka://…, nats://…, redis://…, sqs:, sns:, https://…, webhook:, pg-boss:, module:./file.mjs, stdout:; ${NAME} is taken from the environment',
      )
        .env('PUBLISHER_URL')
        .makeOptionMandatory(mandatory),
    )
    .option('--exchange <name>', "the RabbitMQ exchange; '' is the default exchange (default: txbox)")
    .option(
      '--webhook-secret-file <file>',
      'a file with the secret of webhooks, or several, a line each; else TXBOX_WEBHOOK_SECRET',
    )
    .option('--allow-http', 'allow http:// to other machines')
}
