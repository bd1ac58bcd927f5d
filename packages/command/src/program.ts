import { oneLine } from '@txbox/core/internal'
import { Command, Option } from 'commander'
import { discardDeadLetters, redriveDeadLetters } from './change-dead-letters.ts'
import { listDeadLetters, showDeadLetter } from './dead-letters-command.ts'
import { doctorCommand } from './doctor-command.ts'
import { gcCommand } from './gc-command.ts'
import { migrateCommand } from './migrate-command.ts'
import type { Installation } from './installation.ts'
import { interval, port, retention, seconds, wholeNumber } from './option-values.ts'
import { readVersion } from './read-version.ts'
import { relayCommand } from './relay-command.ts'
import { statusCommand } from './status-command.ts'
import { withoutSecrets } from './without-secrets.ts'

const EXIT_CODES = '\nExit codes: 0 done, 1 failed, 2 wrong usage.'

const THIRTY_DAYS_MS = 2_592_000_000

/** The maximum length of an error of usage, which quotes an argument. */
const USAGE_CHARACTERS = 1000

/** The command line. Throws instead of ending the process. */
export function createProgram(installation: Installation): Command {
  const program = complaining(new Command(installation.calledAs))
    .description(
      "Makes a message's effect happen once: tables, relay, garbage collection, and a look at them.",
    )
    .version(readVersion())
    .addHelpText('after', EXIT_CODES)
  addMigrate(program, installation)
  addRelay(program, installation)
  addGc(program, installation)
  addStatus(program, installation)
  addDeadLetters(program, installation)
  addDoctor(program, installation)
  return program
}

function addMigrate(program: Command, installation: Installation): void {
  withDatabase(program, 'migrate', installation)
    .description('create the tables, or bring them to the revision of this version')
    .option('--dry-run', 'only say what would be applied')
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
    .description('publish what stands in the outbox, until SIGTERM or SIGINT')
    .option('--drain', 'publish what is due now, then exit')
    .option('--timeout <seconds>', 'with --drain: fail when that takes longer', seconds)
    .option('--batch-size <messages>', 'the most messages in one batch (default: 1000)', wholeNumber)
    .option('--batch-bytes <bytes>', 'the most payload bytes in one batch (default: 4 MiB)', wholeNumber)
    .addOption(
      new Option(
        '--wakeup <how>',
        "'notify' also looks when an outbox with notify: true tells of messages; PostgreSQL only",
      ).choices(['poll', 'notify']),
    )
    .option(
      '--lease-ms <ms>',
      'how long a relay that has died keeps its shards (default: 10000)',
      wholeNumber,
    )
    .option('--poll-min-ms <ms>', 'how often to look while there are messages (default: 20)', wholeNumber)
    .option('--poll-max-ms <ms>', 'how often to look when there are none (default: 500)', wholeNumber)
    .option('--owner <name>', 'how this relay is called in the table of leases')
    .option('--stop-timeout-ms <ms>', 'how long to finish what is in flight', wholeNumber, 10_000)
    .option('--log-interval-ms <ms>', 'how often to log what was published', interval, 60_000)
    .option('--health-port <port>', 'answer GET /livez and /readyz there', port)
    .option('--health-host <address>', 'where to listen for that', '0.0.0.0')
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
    .description('remove expired claims, and dead letters past their retention')
    .option('--dry-run', 'only say how many would go')
    .option('--interval-ms <ms>', 'collect again and again, until SIGTERM or SIGINT', wholeNumber)
    .option('--batch-size <rows>', 'the most rows in one transaction (default: 1000)', wholeNumber)
    .option('--pause-ms <ms>', 'from the end of one batch to the next (default: 50)', wholeNumber)
    .option(
      '--dead-letter-retention-ms <ms>',
      "how long dead letters are kept; 'forever' keeps them",
      retention,
      THIRTY_DAYS_MS,
    )
    .addHelpText(
      'after',
      `${examples(
        installation,
        'gc --dry-run',
        'gc --interval-ms 60000 --dead-letter-retention-ms forever',
      )}\nA line of crontab:\n  * * * * *  ${installation.calledAs} gc --json >> /var/log/txbox-gc.log\n`,
    )
    .action(gcCommand)
}

function addStatus(program: Command, installation: Installation): void {
  withDatabase(program, 'status', installation)
    .description('backlog, parked and dead messages, relays and their leases, the inbox, the last collection')
    .option('--watch [seconds]', 'show it again and again, until Ctrl-C (default: every 2)', seconds)
    .addHelpText('after', examples(installation, 'status', 'status --watch', 'status --json | jq .oldestMs'))
    .action(statusCommand)
}

function addDeadLetters(program: Command, installation: Installation): void {
  const group = complaining(program.command('dead-letters'))
    .description('messages that gave up: look at them, put them back, delete them')
    .addHelpText('after', EXIT_CODES)
  const selecting = (name: string): Command =>
    withDatabase(group, name, installation)
      .option('--topic <topic>', 'only messages of this topic')
      .option('--type <type>', 'only messages of this type')
      .option('--key <key>', 'only messages of this ordering key')
  const parked = (text: string): Option => new Option('--parked', text)
  selecting('list')
    .description('in the order of their ids')
    .option('--limit <letters>', 'at most so many, 1 to 1000', wholeNumber, 100)
    .option('--after <id>', 'only letters whose id comes after this one: the next page')
    .addOption(parked('messages that wait for another attempt, or behind one, instead').conflicts('after'))
    .addHelpText(
      'after',
      examples(installation, 'dead-letters list --topic orders', 'dead-letters list --json | jq .id'),
    )
    .action(listDeadLetters)
  withDatabase(group, 'show', installation)
    .description('all that is known of the messages with an id; the payload only with --payload')
    .argument('<id>', 'of the message')
    .option('--payload', 'its headers and its payload too')
    .addOption(parked('messages that wait for another attempt, or behind one, instead'))
    .addHelpText(
      'after',
      examples(installation, 'dead-letters show 0199d3c0-…', 'dead-letters show 0199d3c0-… --payload'),
    )
    .action(showDeadLetter)
  selecting('redrive')
    .argument('[ids...]', 'of the messages')
    .description('put them back: published again, with the same ids, before what follows in their keys')
    .option('--yes', 'without being asked: for scripts')
    .addHelpText(
      'after',
      examples(installation, 'dead-letters redrive 0199d3c0-…', 'dead-letters redrive --topic orders --yes'),
    )
    .action(redriveDeadLetters)
  selecting('discard')
    .argument('[ids...]', 'of the messages')
    .description('delete them for good')
    .option('--yes', 'without being asked: for scripts')
    .addOption(parked('messages that wait for another attempt, or behind one, instead; their keys go on'))
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
      'look for what is wrong with server, tables, traffic and publisher, and say what to do; fails on a problem',
    )
    .option('--long-transaction-ms <ms>', 'report open transactions that are older', wholeNumber, 60_000)
    .addHelpText(
      'after',
      examples(installation, 'doctor', 'doctor --publisher amqp://broker', 'doctor --json | jq .healthy'),
    )
    .action(doctorCommand)
}

function withPublisher(command: Command, mandatory = true): Command {
  return command
    .addOption(
      new Option('--publisher <url>', 'where to: amqp://…, amqps://… or stdout:')
        .env('PUBLISHER_URL')
        .makeOptionMandatory(mandatory),
    )
    .option('--exchange <name>', "the RabbitMQ exchange; '' is the default exchange", 'txbox')
}

/** A command that throws, and whose usage errors are one line that names the right help. */
function complaining(command: Command): Command {
  return command.exitOverride().configureOutput({
    outputError(text, write) {
      // Commander's own errors quote the arguments as they are, and have hints on lines of their own.
      const said = oneLine(withoutSecrets(text.replace(/^error: /, '')), USAGE_CHARACTERS)
      write(`txbox: ${said} (see '${fullNameOf(command)} --help')\n`)
    },
  })
}

function fullNameOf(command: Command): string {
  return command.parent === null ? command.name() : `${fullNameOf(command.parent)} ${command.name()}`
}

function examples({ calledAs }: Installation, ...lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  ${calledAs} ${line}\n`).join('')}${EXIT_CODES}`
}

/** A command with what every command takes. */
function withDatabase(program: Command, name: string, installation: Installation): Command {
  return complaining(program.command(name))
    .setOptionValue('installation', installation)
    .addOption(
      new Option('--database <url>', 'postgres://… or mysql://user@host/database').env('DATABASE_URL'),
    )
    .option('--schema <name>', "PostgreSQL: the schema of txbox's tables (default: txbox)")
    .option(
      '--prefix <text>',
      "MySQL, MariaDB: what the names of txbox's tables begin with (default: txbox_)",
    )
    .option('--json', 'write JSON for programs, one object a line')
}
