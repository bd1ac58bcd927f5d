import { Command, Option } from 'commander'
import { discardDeadLetters, redriveDeadLetters, retryParked } from './change-dead-letters.ts'
import { listDeadLetters, showDeadLetter } from './dead-letters-command.ts'
import { addConsumers } from './consumers-program.ts'
import { doctorCommand } from './doctor-command.ts'
import { gcCommand } from './gc-command.ts'
import { migrateCommand } from './migrate-command.ts'
import type { Installation } from './installation.ts'
import { interval, minutes, port, retention, seconds, wholeNumber } from './option-values.ts'
import { EXIT_CODES, examples, withDatabase, withUsageErrors } from './program-parts.ts'
import { readVersion } from './read-version.ts'
import { relayCommand } from './relay-command.ts'
import { statusCommand } from './status-command.ts'

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
  withPublisher(withDatabase(program, 'relay', installation))
    .description('publish the messages of the outbox, until SIGTERM or SIGINT')
    .option('--drain', 'publish the messages that are due now, then exit')
    .option('--timeout <seconds>', 'with --drain: fail if draining takes longer', seconds)
    .option('--batch-size <messages>', 'maximum number of messages in one batch (default: 1000)', wholeNumber)
    .option('--batch-bytes <bytes>', 'maximum payload bytes in one batch (default: 4 MiB)', wholeNumber)
    .addOption(
      new Option(
        '--wakeup <how>',
        "'notify' also polls when an outbox with notify: true stores messages; PostgreSQL only",
      ).choices(['poll', 'notify']),
    )
    .option(
      '--lease-ms <ms>',
      'duration of a lease; the shards of a relay that dies wait this long (default: 10000)',
      wholeNumber,
    )
    .option('--poll-min-ms <ms>', 'polling interval while there are messages (default: 20)', wholeNumber)
    .option('--poll-max-ms <ms>', 'polling interval while there are no messages (default: 500)', wholeNumber)
    .option('--owner <name>', 'the name of this relay in the table of leases')
    .option('--stop-timeout-ms <ms>', 'maximum time to finish what is in flight', wholeNumber, 10_000)
    .option(
      '--log-interval-ms <ms>',
      'interval between log lines with the number of published messages',
      interval,
      60_000,
    )
    .option('--health-port <port>', 'serve GET /livez and /readyz on this port', port)
    .option('--health-host <address>', 'the address on which --health-port listens', '0.0.0.0')
    .addHelpText(
      'after',
      examples(
        installation,
        'relay --publisher amqp://broker --health-port 8080',
        'relay --publisher stdout: --drain --timeout 30 | jq .topic',
      ),
    )
    .action(relayCommand)
}

function addGc(program: Command, installation: Installation): void {
  withDatabase(program, 'gc', installation)
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

function addDeadLetters(program: Command, installation: Installation): void {
  const group = withUsageErrors(program.command('dead-letters'))
    .description('list, show, redrive or discard dead letters; retry parked messages')
    .addHelpText('after', EXIT_CODES)
  const of = (name: string): Command =>
    withDatabase(group, name, installation)
      .option('--queue <name>', 'messages of this stored queue, instead of those of the outbox')
      .addOption(new Option('--consumer <name>', 'only messages of this local consumer').conflicts('queue'))
  const selecting = (name: string): Command =>
    of(name)
      .addOption(new Option('--topic <topic>', 'only messages of this topic').conflicts('queue'))
      .option('--type <type>', 'only messages of this type')
      .option('--key <key>', 'only messages of this ordering key')
      .option(
        '--error <text>',
        'only messages whose error contains this; of dead letters, among the newest 10,000',
      )
  selecting('list')
    .description('list dead letters in the order of their ids')
    .option('--limit <letters>', 'maximum number, 1 to 1000', wholeNumber, 100)
    .option('--after <id>', 'only dead letters whose id comes after this one: the next page')
    .addOption(
      new Option(
        '--by <what>',
        'count the newest 10,000 dead letters by their errors, without numbers and ids',
      )
        .choices(['error'])
        .conflicts(['after', 'parked']),
    )
    .addOption(
      parked('list messages that wait for another attempt, or behind such a message').conflicts('after'),
    )
    .addHelpText(
      'after',
      examples(
        installation,
        'dead-letters list --topic orders',
        'dead-letters list --queue orders',
        'dead-letters list --by error',
      ),
    )
    .action(listDeadLetters)
  of('show')
    .description('show all fields of the dead letters with an id')
    .argument('<id>', 'the id of the message')
    .option('--payload', 'also show headers and payload')
    .addOption(parked('show messages that wait for another attempt, or behind such a message'))
    .addHelpText(
      'after',
      examples(installation, 'dead-letters show 0199d3c0-…', 'dead-letters show 0199d3c0-… --payload'),
    )
    .action(showDeadLetter)
  addChanges(selecting, installation)
}

function parked(text: string): Option {
  return new Option('--parked', text)
}

/** Adds the commands that change messages. */
function addChanges(selecting: (name: string) => Command, installation: Installation): void {
  selecting('redrive')
    .argument('[ids...]', 'the ids of the messages')
    .description(
      'publish or handle dead letters again, with the same ids, before later messages of their keys',
    )
    .option('--yes', 'skip the confirmation: for scripts')
    .addHelpText(
      'after',
      examples(installation, 'dead-letters redrive 0199d3c0-…', 'dead-letters redrive --queue orders --yes'),
    )
    .action(redriveDeadLetters)
  selecting('retry')
    .argument('[ids...]', 'the ids of the messages')
    .description('try parked messages now, instead of at their next attempt')
    .addHelpText(
      'after',
      examples(installation, 'dead-letters retry 0199d3c0-…', 'dead-letters retry --error ECONNREFUSED'),
    )
    .action(retryParked)
  selecting('discard')
    .argument('[ids...]', 'the ids of the messages')
    .description('delete dead letters permanently')
    .option('--yes', 'skip the confirmation: for scripts')
    .addOption(
      parked('delete messages that wait for another attempt, or behind such a message; their keys continue'),
    )
    .addHelpText(
      'after',
      examples(
        installation,
        'dead-letters discard --topic orders --key o1',
        'dead-letters discard 0199d3c0-… --parked',
      ),
    )
    .action(discardDeadLetters)
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

function withPublisher(command: Command, mandatory = true): Command {
  return command
    .addOption(
      new Option('--publisher <url>', 'the destination: amqp://…, amqps://… or stdout:')
        .env('PUBLISHER_URL')
        .makeOptionMandatory(mandatory),
    )
    .option('--exchange <name>', "the RabbitMQ exchange; '' is the default exchange", 'txbox')
}
