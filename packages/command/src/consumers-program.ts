import type { Command } from 'commander'
import { addConsumer, listConsumers, removeConsumer } from './consumers-command.ts'
import type { Installation } from './installation.ts'
import { seconds } from './option-values.ts'
import { EXIT_CODES, examples, withDatabase, withUsageErrors } from './with-database.ts'

/** Adds the commands about local consumers. */
export function addConsumers(program: Command, installation: Installation): void {
  const group = withUsageErrors(program.command('consumers'))
    .description('list local consumers; add or remove their subscriptions')
    .addHelpText('after', EXIT_CODES)
  withDatabase(group, 'list', installation)
    .description('list local consumers with their messages, and whether a process runs them')
    .addHelpText('after', examples(installation, 'consumers list', 'consumers list --json | jq .oldestDue'))
    .action(listConsumers)
  withDatabase(group, 'add', installation)
    .argument('<name>', 'the name of the consumer')
    .argument('<types...>', 'types of messages')
    .description('store messages of these types for a consumer, before it first starts')
    .addHelpText('after', examples(installation, 'consumers add billing order.placed order.cancelled'))
    .action(addConsumer)
  withDatabase(group, 'remove', installation)
    .argument('<name>', 'the name of the consumer')
    .argument('[types...]', 'types of messages (default: all)')
    .description('end subscriptions of a consumer; refused while messages wait for it')
    .option('--discard', 'delete its messages permanently, dead letters included')
    .option('--yes', 'skip the confirmation of --discard: for scripts')
    .option(
      '--wait <seconds>',
      'how long to wait for transactions that are open, and for handlers that have messages',
      seconds,
      5,
    )
    .addHelpText(
      'after',
      examples(
        installation,
        'consumers remove billing order.cancelled',
        'consumers remove billing --discard',
      ),
    )
    .action(removeConsumer)
}
