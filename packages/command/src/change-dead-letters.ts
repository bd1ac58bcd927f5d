import type { DeadLetter, DeadLetterFilter, DeadLetterPage } from '@txbox/core'
import type { ParkedMessage } from '@txbox/core/ports'
import { agreed, canAsk } from './ask.ts'
import { idsWithError } from './dead-letter-errors.ts'
import { tableOf } from './dead-letters-command.ts'
import {
  everything,
  selectionOf,
  usingDeadLetters,
  type DeadLettersOptions,
  type Tools,
} from './dead-letters-tools.ts'
import { UsageError } from './failure.ts'
import { wrap } from './layout.ts'
import { counted, terminalColumns, toJson, write, writeJson } from './terminal.ts'
import { visible } from './visible.ts'

const PAGE = 1000
/** The number of selected messages that are shown before the user decides. */
const PREVIEW_MESSAGES = 5

type Message = DeadLetter | ParkedMessage
type Selection = Parameters<Tools['letters']['redrive']>[0]

interface ChangeOptions extends DeadLettersOptions {
  readonly yes?: boolean
}

interface Change {
  readonly one: string
  /** @param first some of the messages */
  readonly will: (messages: string, first: readonly Message[]) => string
  readonly done: (messages: string) => string
  readonly question: string
  readonly list: (tools: Tools, filter: DeadLetterFilter) => Promise<DeadLetterPage<Message>>
  readonly act: (tools: Tools, selection: Selection) => Promise<readonly Message[]>
}

export async function redriveDeadLetters(ids: readonly string[], options: ChangeOptions): Promise<void> {
  await change(ids, options, {
    one: 'dead letter',
    will: (letters, first) =>
      `Redriving puts ${letters} back: ${whoGets(first, options.queue)} again, with the same ids.`,
    done: (letters) => `Put back ${letters}.`,
    question: 'Redrive?',
    list: ({ store }, filter) => store.list(filter, PAGE),
    act: ({ letters }, selection) => letters.redrive(selection),
  })
}

/** `txbox dead-letters discard [ids…]`, with `--parked` for parked messages that are not dead letters. */
export async function discardDeadLetters(ids: readonly string[], options: ChangeOptions): Promise<void> {
  const common = {
    done: (messages: string) => `Deleted ${messages}.`,
    question: 'Discard?',
  }
  await change(
    ids,
    options,
    options.parked === true
      ? {
          ...common,
          one: 'parked message',
          will: (messages) =>
            `Discarding deletes ${messages} permanently: they will never be ${options.queue === undefined ? 'published or handled' : 'received'}. Their keys continue without them.`,
          list: ({ store }, filter) => store.listParked(filter, PAGE),
          act: discardParked,
        }
      : {
          ...common,
          one: 'dead letter',
          will: (letters) => `Discarding deletes ${letters} permanently. This cannot be undone.`,
          list: ({ store }, filter) => store.list(filter, PAGE),
          act: ({ letters }, selection) => letters.discard(selection),
        },
  )
}

/** `txbox dead-letters retry [ids…]`: parked messages are tried now. Nothing is lost by that, so nobody is asked. */
export async function retryParked(ids: readonly string[], options: ChangeOptions): Promise<void> {
  await change(
    ids,
    { ...options, parked: true, yes: true },
    {
      one: 'parked message',
      will: (messages) => `${messages} are tried now.`,
      done: (messages) => `Made ${messages} due now.`,
      question: 'Retry?',
      list: ({ store }, filter) => store.listParked(filter, PAGE),
      act: (tools, selection) => inPages((filter) => tools.store.retry(filter, PAGE), selection),
    },
  )
}

async function discardParked({ store }: Tools, selection: Selection): Promise<readonly ParkedMessage[]> {
  return inPages((filter) => store.discardParked(filter, PAGE), selection)
}

async function inPages(
  touch: (filter: DeadLetterFilter) => Promise<DeadLetterPage<ParkedMessage>>,
  selection: Selection,
): Promise<readonly ParkedMessage[]> {
  const touched: ParkedMessage[] = []
  for (let after: DeadLetterFilter['after']; ;) {
    const { messages, next } = await touch({ ...everything, ...selection, after })
    for (const message of messages) touched.push(message)
    if (next === undefined) return touched
    after = next
  }
}

async function change(ids: readonly string[], options: ChangeOptions, what: Change): Promise<void> {
  let selection: Selection = { ...selectionOf(options), ...(ids.length > 0 && { ids }) }
  if (Object.keys(selection).length === 0) {
    throw new UsageError(
      `no ${what.one}s are selected: pass ids, --topic, --type, --key, --consumer, --error or --queue. ` +
        `'npx txbox dead-letters list${options.parked === true ? ' --parked' : ''}' shows them.`,
    )
  }
  const json = options.json === true
  await usingDeadLetters(options, async (tools) => {
    const { error } = options
    if (error !== undefined && options.parked !== true) {
      const found = await idsWithError(tools, { ...options, error })
      const wanted = new Set(ids)
      selection = { ...selection, ids: found.ids.filter((id) => ids.length === 0 || wanted.has(id)) }
      if (found.bound !== undefined) process.stderr.write(`${found.bound}\n`)
    }
    if (options.yes !== true) {
      const filter = { ...everything, ...selection }
      const { count, first } = await preview((after) => what.list(tools, { ...filter, after }))
      if (count === 0 && ids.length > 0) throw noneOf(what.one, ids)
      if (count === 0) return write(json ? toJson({ count }) : `No ${what.one}s match.`)
      const will = wrap(what.will(counted({ count }, what.one), first), terminalColumns())
      process.stderr.write(`${tableOf(first)}\n\n${will}\n`)
      if (!canAsk()) throw new UsageError('nothing was changed: pass --yes to skip the confirmation.')
      if (!(await agreed(what.question))) return write(json ? toJson({ count: 0 }) : 'Nothing was changed.')
    }
    const touched = await what.act(tools, selection)
    if (touched.length === 0 && ids.length > 0) throw noneOf(what.one, ids)
    if (json) for (const message of touched) writeJson(message)
    else write(what.done(counted({ count: touched.length }, what.one)))
  })
}

/** Returns the clause that says who tries the redriven messages again. A local consumer gets only messages that are dead there. */
function whoGets(first: readonly Message[], queue: string | undefined): string {
  if (queue !== undefined) return 'receivers get them'
  const local = first.filter(({ consumer }) => consumer !== undefined).length
  if (local === 0) return 'the relay publishes them'
  const consumers = 'the consumers at which they are dead handle them'
  return local === first.length ? consumers : `the relay publishes them, and ${consumers}`
}

/** A misspelled id must not look like success. */
function noneOf(one: string, ids: readonly string[]): Error {
  const named = ids.map((id) => `'${visible(id)}'`).join(', ')
  return new Error(
    `No ${one} with the ${ids.length === 1 ? 'id' : 'ids'} ${named} matches. Nothing was changed.`,
  )
}

async function preview(
  page: (after: DeadLetterFilter['after']) => Promise<DeadLetterPage<Message>>,
): Promise<{ readonly count: number; readonly first: readonly Message[] }> {
  let count = 0
  let first: readonly Message[] | undefined
  for (let after: DeadLetterFilter['after']; ;) {
    const { messages, next } = await page(after)
    count += messages.length
    first ??= messages.slice(0, PREVIEW_MESSAGES)
    if (next === undefined) return { count, first }
    after = next
  }
}
