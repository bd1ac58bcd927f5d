import { LIMITS } from '@txbox/core'
import type { ConnectedPorts, InspectionStore, LocalConsumerFigures, RemovalOutcome } from '@txbox/core/ports'
import { LOCAL_CONSUMER_NAME, connectedPortsOf, isLocalConsumerName, whoAmI } from '@txbox/core/internal'
import { agreed, canAsk } from './ask.ts'
import { connectDatabase, type DatabaseOptions } from './connect-database.ts'
import { consumersTable } from './consumers-table.ts'
import { UsageError } from './failure.ts'
import { counted, write, writeJson } from './terminal.ts'
import { visible } from './visible.ts'

const CONSUMERS = 1000

interface ConsumersOptions extends DatabaseOptions {
  readonly json?: boolean
}

interface RemoveOptions extends ConsumersOptions {
  readonly discard?: boolean
  readonly yes?: boolean
  readonly wait: number
}

interface Tools {
  readonly ports: ConnectedPorts
  readonly inspection: InspectionStore
}

type Removed = Extract<RemovalOutcome, { readonly outcome: 'removed' }>

/** `txbox consumers list` */
export async function listConsumers(options: ConsumersOptions): Promise<void> {
  await using(options, async ({ inspection }) => {
    const consumers = await inspection.localConsumers(CONSUMERS)
    if (options.json === true) for (const consumer of consumers) writeJson(consumer)
    else write(consumers.length === 0 ? 'There are no local consumers.' : consumersTable(consumers))
  })
}

/** `txbox consumers add NAME TYPE…` */
export async function addConsumer(
  name: string,
  types: readonly string[],
  options: ConsumersOptions,
): Promise<void> {
  assertNames(name, types)
  await using(options, async ({ ports }) => {
    const added = await ports.subscriptions().register(name, types)
    if (options.json === true) return writeJson({ consumer: name, added })
    const found =
      added.length === 0 ? 'had all of these subscriptions' : `now gets ${added.map(visible).join(', ')}`
    write(`Consumer '${name}' ${found}.`)
  })
}

/** `txbox consumers remove NAME [TYPE…]` */
export async function removeConsumer(
  name: string,
  types: readonly string[],
  options: RemoveOptions,
): Promise<void> {
  assertNames(name, types)
  await using(options, async ({ ports, inspection }) => {
    const figures = (await inspection.localConsumers(CONSUMERS)).find((consumer) => consumer.name === name)
    if (!(await mayDiscard(name, types, figures, options))) {
      return options.json === true
        ? writeJson({ consumer: name, discarded: 0 })
        : write('Nothing was changed.')
    }
    for (const type of types.length === 0 ? [undefined] : types) {
      const how = { type, discard: options.discard === true, by: whoAmI(), waitMs: options.wait * 1000 }
      const outcome = await ports.removals().remove(name, how)
      const removed = removedOr(outcome, placeOf(name, type))
      if (options.json === true) writeJson({ consumer: name, type, ...removed })
      else write(summaryOf(removed, name, type))
      for (const note of notesOn(removed, figures)) process.stderr.write(`${note}\n`)
    }
  })
}

/** Deleting messages cannot be undone, so a person is asked. */
async function mayDiscard(
  name: string,
  types: readonly string[],
  figures: LocalConsumerFigures | undefined,
  { discard, yes }: RemoveOptions,
): Promise<boolean> {
  if (discard !== true || yes === true || figures === undefined) return true
  const { waiting, parked, scheduled, dead } = figures
  const counts = [
    counted(waiting, 'waiting message'),
    counted(parked, 'parked message'),
    counted(scheduled, 'scheduled message'),
    counted(dead, 'dead letter'),
  ]
  const which =
    types.length === 0
      ? ''
      : `, of which those of ${types.map((type) => `'${visible(type)}'`).join(', ')} are deleted`
  process.stderr.write(`Consumer '${name}' has ${counts.join(', ')}${which}. This cannot be undone.\n`)
  if (!canAsk()) throw new UsageError('nothing was changed: pass --yes to skip the confirmation.')
  return agreed('Discard?')
}

function removedOr(outcome: RemovalOutcome, place: string): Removed {
  if (outcome.outcome === 'unknown') {
    throw new Error(`There is no ${place}, and there are no messages for it. Nothing was changed.`)
  }
  if (outcome.outcome === 'refused') {
    const waiting = counted(outcome.waiting, 'message')
    throw new Error(
      `The ${place} was not ended: ${waiting} would be left. Run the consumer until they are handled, or pass --discard to ` +
        'delete them.',
    )
  }
  return outcome
}

function placeOf(name: string, type: string | undefined): string {
  const to = type === undefined ? '' : ` to '${visible(type)}'`
  return `subscription of consumer '${name}'${to}`
}

function summaryOf({ discarded }: Removed, name: string, type: string | undefined): string {
  const what = type === undefined ? `all subscriptions of consumer '${name}'` : `the ${placeOf(name, type)}`
  return `Ended ${what}.${discarded === 0 ? '' : ` Deleted ${counted({ count: discarded }, 'message')}.`}`
}

/** Returns a note for each step that the removal leaves to the operator. */
function notesOn(
  { left, openPublishers }: Removed,
  figures: LocalConsumerFigures | undefined,
): readonly string[] {
  return [
    ...(left.count > 0
      ? [
          `${counted(left, 'message')} of the consumer ${left.count === 1 ? 'is' : 'are'} still there: they were stored or handled ` +
            'meanwhile, or an outbox has the consumer in its option subscriptions. Repeat the command, or run the consumer.',
        ]
      : []),
    ...(openPublishers && left.count === 0
      ? ['Transactions that were open before may still store messages for it: repeat the command later.']
      : []),
    ...(figures?.runsNow === true
      ? ['The consumer is running: it registers the types of its handlers again when it starts.']
      : []),
  ]
}

function assertNames(name: string, types: readonly string[]): void {
  if (!isLocalConsumerName(name)) throw new UsageError(`the name of a consumer is ${LOCAL_CONSUMER_NAME}.`)
  if (types.some((type) => type === '' || type.length > LIMITS.typeCharacters)) {
    throw new UsageError(`a type has 1 to ${LIMITS.typeCharacters} characters.`)
  }
}

async function using(options: DatabaseOptions, work: (tools: Tools) => Promise<void>): Promise<void> {
  const connected = await connectDatabase(options, 'consumers')
  try {
    const ports = connectedPortsOf('consumers', connected.database)
    await ports.checkSchema()
    await work({ ports, inspection: connected.inspection })
  } finally {
    await connected.close()
  }
}
