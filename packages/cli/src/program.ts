import { Command, Option } from 'commander'
import { discardDeadLetters, redriveDeadLetters } from './change-dead-letters.ts'
import { listDeadLetters, showDeadLetter } from './dead-letters-command.ts'
import { doctorCommand } from './doctor-command.ts'
import { gcCommand } from './gc-command.ts'
import { migrateCommand } from './migrate-command.ts'
import { relayCommand } from './relay-command.ts'
import { statusCommand } from './status-command.ts'
import { retention, seconds, wholeNumber } from './option-values.ts'

const EXIT_CODES = '\nExit codes: 0 done, 1 failed, 2 wrong usage.'

const THIRTY_DAYS_MS = 2_592_000_000

/** The command line. Throws instead of ending the process. */
export function createProgram(): Command {
  const program = new Command('txbox')
    .description(
      "Makes a message's effect happen once: tables, relay, garbage collection, and a look at them.",
    )
    .version('0.1.0')
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(inOneLine(text)) })
    .addHelpText('after', EXIT_CODES)
  addMigrate(program)
  addRelay(program)
  addGc(program)
  addStatus(program)
  addDeadLetters(program)
  addDoctor(program)
  return program
}

function addMigrate(program: Command): void {
  withDatabase(program, 'migrate')
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
        'txbox migrate --database postgres://user@localhost/shop',
        'txbox migrate --dry-run',
        'txbox migrate --schema messaging --print | psql -v ON_ERROR_STOP=1 -1',
        'txbox migrate --prefix messaging_ --print | mysql shop',
      ),
    )
    .action(migrateCommand)
}

function addRelay(program: Command): void {
  withDatabase(program, 'relay')
    .description('publish what stands in the outbox, until SIGTERM or SIGINT')
    .requiredOption('--publisher <url>', 'where to: amqp://…, amqps://… or stdout:')
    .option('--exchange <name>', "the RabbitMQ exchange; '' is the default exchange", 'txbox')
    .option('--drain', 'publish what is due now, then exit')
    .option('--batch-size <messages>', 'the most messages in one batch', wholeNumber)
    .option('--lease-ms <ms>', 'how long a relay that has died keeps its shards', wholeNumber)
    .option('--poll-min-ms <ms>', 'how often to look for messages while there are some', wholeNumber)
    .option('--poll-max-ms <ms>', 'how often to look when there are none', wholeNumber)
    .option('--owner <name>', 'how this relay is called in the table of leases')
    .option('--stop-timeout-ms <ms>', 'how long to finish what is in flight', wholeNumber, 10_000)
    .option('--health-port <port>', 'answer GET /livez and /readyz there', wholeNumber)
    .option('--health-host <address>', 'where to listen for that', '0.0.0.0')
    .addHelpText(
      'after',
      examples(
        'txbox relay --publisher amqp://guest:guest@localhost --database postgres://user@localhost/shop',
        'txbox relay --publisher amqp://broker --health-port 8080',
        'txbox relay --publisher stdout: --drain | jq .topic',
      ),
    )
    .action(relayCommand)
}

function addGc(program: Command): void {
  withDatabase(program, 'gc')
    .description('remove expired claims, and dead letters past their retention')
    .option('--dry-run', 'only say how many would go')
    .option('--interval-ms <ms>', 'collect again and again, until SIGTERM or SIGINT', wholeNumber)
    .option('--batch-size <rows>', 'the most rows in one transaction', wholeNumber)
    .option('--pause-ms <ms>', 'from the end of one batch to the next', wholeNumber)
    .option(
      '--dead-letter-retention-ms <ms>',
      "how long dead letters are kept; 'forever' keeps them",
      retention,
      THIRTY_DAYS_MS,
    )
    .addHelpText(
      'after',
      examples(
        'txbox gc --dry-run',
        '* * * * * txbox gc --json >> /var/log/txbox-gc.log   (a line of crontab)',
        'txbox gc --interval-ms 60000 --dead-letter-retention-ms forever',
      ),
    )
    .action(gcCommand)
}

function addStatus(program: Command): void {
  withDatabase(program, 'status')
    .description('backlog, parked and dead messages, relays and their leases, the inbox, the last collection')
    .option('--watch [seconds]', 'show it again and again, until Ctrl-C (default: every 2)', seconds)
    .addHelpText(
      'after',
      examples('txbox status', 'txbox status --watch', 'txbox status --json | jq .oldestMs'),
    )
    .action(statusCommand)
}

function addDeadLetters(program: Command): void {
  const group = program
    .command('dead-letters')
    .exitOverride()
    .description('messages that gave up: look at them, put them back, delete them')
    .addHelpText('after', EXIT_CODES)
  const selecting = (name: string): Command =>
    withDatabase(group, name)
      .option('--topic <topic>', 'only those of this topic')
      .option('--type <type>', 'only those of this type')
      .option('--key <key>', 'only those of this ordering key')
  selecting('list')
    .description('in the order of their ids')
    .option('--limit <letters>', 'at most so many, 1 to 1000', wholeNumber, 100)
    .option('--after <id>', 'only those whose id comes after this one: the next page')
    .addHelpText(
      'after',
      examples('txbox dead-letters list --topic orders', 'txbox dead-letters list --json | jq .id'),
    )
    .action(listDeadLetters)
  withDatabase(group, 'show')
    .description('all about one, but its payload')
    .argument('<id>', 'of the message')
    .addHelpText('after', examples('txbox dead-letters show 0199d3c0-…'))
    .action(showDeadLetter)
  selecting('redrive [ids...]')
    .description('put them back: published again, with the same ids, before what follows in their keys')
    .option('--yes', 'without being asked: for scripts')
    .addHelpText(
      'after',
      examples('txbox dead-letters redrive 0199d3c0-…', 'txbox dead-letters redrive --topic orders --yes'),
    )
    .action(redriveDeadLetters)
  selecting('discard [ids...]')
    .description('delete them for good')
    .option('--yes', 'without being asked: for scripts')
    .addHelpText('after', examples('txbox dead-letters discard --topic orders --key o1'))
    .action(discardDeadLetters)
}

function addDoctor(program: Command): void {
  withDatabase(program, 'doctor')
    .description(
      'look for what is wrong with server, tables and traffic, and say what to do; fails on a problem',
    )
    .option('--long-transaction-ms <ms>', 'an open transaction that is older is told of', wholeNumber, 60_000)
    .addHelpText('after', examples('txbox doctor', 'txbox doctor --json | jq .healthy'))
    .action(doctorCommand)
}

/** Commander's own complaints come with hints in lines of their own. */
function inOneLine(text: string): string {
  const said = text
    .replace(/^error: /, '')
    .trim()
    .replaceAll(/\s*\n\s*/g, ' ')
  return `txbox: ${said} (see 'txbox --help')\n`
}

export function examples(...lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  ${line}\n`).join('')}${EXIT_CODES}`
}

/** A command with what every command takes. */
export function withDatabase(program: Command, name: string): Command {
  return program
    .command(name)
    .exitOverride()
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
