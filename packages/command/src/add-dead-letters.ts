import { Option, type Command } from 'commander'
import { discardDeadLetters, redriveDeadLetters, retryParked } from './change-dead-letters.ts'
import { listDeadLetters, showDeadLetter } from './dead-letters-command.ts'
import type { Installation } from './installation.ts'
import { wholeNumber } from './option-values.ts'
import { EXIT_CODES, examples, withDatabase, withUsageErrors } from './with-database.ts'

/** Creates a command of the group. */
type Create = (name: string) => Command

/** Adds `txbox dead-letters`: `list` and `show` read messages; `redrive`, `retry` and `discard` change them. */
export function addDeadLetters(program: Command, installation: Installation): void {
  const group = withUsageErrors(program.command('dead-letters'))
    .description('list, show, redrive or discard dead letters; retry parked messages')
    .addHelpText('after', EXIT_CODES)
  const of: Create = (name) =>
    withDatabase(group, name, installation)
      .option('--queue <name>', 'messages of this stored queue, instead of those of the outbox')
      .addOption(new Option('--consumer <name>', 'only messages of this local consumer').conflicts('queue'))
  const selecting: Create = (name) => withSelection(of(name))
  addList(selecting, installation)
  addShow(of, installation)
  addRedrive(selecting, installation)
  addRetry(selecting, installation)
  addDiscard(selecting, installation)
}

/** Adds the options that select messages by their properties. */
function withSelection(command: Command): Command {
  return command
    .addOption(new Option('--topic <topic>', 'only messages of this topic').conflicts('queue'))
    .option('--type <type>', 'only messages of this type')
    .option('--key <key>', 'only messages of this ordering key')
    .option(
      '--error <text>',
      'only messages whose error contains this; of dead letters, among the newest 10,000',
    )
}

function addList(selecting: Create, installation: Installation): void {
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
}

function addShow(of: Create, installation: Installation): void {
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
}

function addRedrive(selecting: Create, installation: Installation): void {
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
}

function addRetry(selecting: Create, installation: Installation): void {
  selecting('retry')
    .argument('[ids...]', 'the ids of the messages')
    .description('try parked messages now, instead of at their next attempt')
    .addHelpText(
      'after',
      examples(installation, 'dead-letters retry 0199d3c0-…', 'dead-letters retry --error ECONNREFUSED'),
    )
    .action(retryParked)
}

function addDiscard(selecting: Create, installation: Installation): void {
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

function parked(text: string): Option {
  return new Option('--parked', text)
}
