import { createInterface } from 'node:readline/promises'
import { connectedPortsOf, type DeadLetter, type DeadLetterFilter } from '@txbox/core'
import { createDeadLetters, type DeadLetters } from '@txbox/relay'
import { connectDatabase, type DatabaseOptions } from './connect-database.ts'
import { UsageError } from './failure.ts'
import { counted, paint, table, write, writeJson } from './terminal.ts'

const STATEMENT_TIMEOUT_MS = 60_000
const PAGE = 1000
/** Of those that are meant, so many are shown before one decides. */
const SHOWN = 5

interface Selection {
  readonly topic?: string
  readonly type?: string
  readonly key?: string
}

interface CommandOptions extends DatabaseOptions, Selection {
  readonly json?: boolean
}

interface ListOptions extends CommandOptions {
  readonly limit: number
  readonly after?: string
}

interface ChangeOptions extends CommandOptions {
  readonly yes?: boolean
}

/** `txbox dead-letters list` */
export async function listDeadLetters(options: ListOptions): Promise<void> {
  await using(options, async ({ letters }) => {
    const { limit, after } = options
    const found = await letters.list({ ...selectionOf(options), limit, after })
    if (options.json === true) for (const letter of found) writeJson(letter)
    else if (found.length === 0) write('No dead letters.')
    else write(tableOf(found))
    if (options.json !== true && found.length === limit) {
      write(`\nThere may be more: --after ${found.at(-1)!.id}`)
    }
  })
}

/** `txbox dead-letters show <id>` */
export async function showDeadLetter(id: string, options: CommandOptions): Promise<void> {
  await using(options, async ({ find }) => {
    const [letter] = await find({ ...everything, ids: [id] }, 1)
    if (letter === undefined) throw new Error(`There is no dead letter with the id '${id}'.`)
    if (options.json === true) return writeJson(letter)
    const { redriven, ...rest } = letter
    const lines = Object.entries({
      ...rest,
      ...(redriven && { redriven: `${redriven.at.toISOString()} by ${redriven.by}` }),
    })
    for (const [name, value] of lines) {
      if (value === undefined) continue
      write(`${paint('bold', name.padEnd(14))}${value instanceof Date ? value.toISOString() : String(value)}`)
    }
  })
}

/** `txbox dead-letters redrive [ids…]` */
export async function redriveDeadLetters(ids: readonly string[], options: ChangeOptions): Promise<void> {
  await change(ids, options, {
    will: (letters) => `Redriving puts ${letters} back: they are published again, with the same ids.`,
    done: (letters) => `Put back ${letters}.`,
    question: 'Redrive?',
    act: (dead, selection) => dead.redrive(selection),
  })
}

/** `txbox dead-letters discard [ids…]` */
export async function discardDeadLetters(ids: readonly string[], options: ChangeOptions): Promise<void> {
  await change(ids, options, {
    will: (letters) => `Discarding deletes ${letters} for good: nothing brings them back.`,
    done: (letters) => `Deleted ${letters}.`,
    question: 'Discard?',
    act: (dead, selection) => dead.discard(selection),
  })
}

interface Change {
  readonly will: (letters: string) => string
  readonly done: (letters: string) => string
  readonly question: string
  readonly act: (
    letters: DeadLetters,
    selection: Parameters<DeadLetters['redrive']>[0],
  ) => Promise<readonly DeadLetter[]>
}

async function change(
  ids: readonly string[],
  options: ChangeOptions,
  { will, done, question, act }: Change,
): Promise<void> {
  const selection = { ...selectionOf(options), ...(ids.length > 0 && { ids }) }
  if (Object.keys(selection).length === 0) {
    throw new UsageError(
      "say which dead letters are meant: ids, --topic, --type or --key. 'txbox dead-letters list' shows them.",
    )
  }
  const json = options.json === true
  await using(options, async ({ letters, find }) => {
    const filter = { ...everything, ...selection }
    const { count, first } = await preview((after) => find({ ...filter, after }, PAGE))
    if (options.yes !== true) {
      if (count === 0) return write(json ? '{"count":0}' : 'No dead letters match.')
      process.stderr.write(`${tableOf(first)}\n${will(counted({ count }, 'dead letter'))}\n`)
      if (!(await agreed(question)))
        throw new UsageError(`nothing was changed: pass --yes to go on without being asked.`)
    }
    const touched = await act(letters, selection)
    if (json) for (const letter of touched) writeJson(letter)
    else write(done(counted({ count: touched.length }, 'dead letter')))
  })
}

/** How many are meant, and the first of them. */
async function preview(
  page: (after: string | undefined) => Promise<readonly DeadLetter[]>,
): Promise<{ count: number; first: readonly DeadLetter[] }> {
  let count = 0
  let first: readonly DeadLetter[] | undefined
  for (let after: string | undefined; ;) {
    const letters = await page(after)
    count += letters.length
    first ??= letters.slice(0, SHOWN)
    if (letters.length < PAGE) return { count, first }
    after = letters.at(-1)!.id
  }
}

/** Asks whoever sits at the terminal. In a script nobody does. */
async function agreed(question: string): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return false
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return /^y(es)?$/i.test((await terminal.question(`${question} [y/N] `)).trim())
  } finally {
    terminal.close()
  }
}

type Find = (filter: DeadLetterFilter, limit: number) => Promise<readonly DeadLetter[]>

async function using(
  options: DatabaseOptions,
  work: (tools: { readonly letters: DeadLetters; readonly find: Find }) => Promise<void>,
): Promise<void> {
  const connected = connectDatabase(options, 'dead-letters')
  const { database } = connected
  try {
    const store = connectedPortsOf('dead-letters', database).deadLetters({
      statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    })
    await work({
      letters: createDeadLetters({ database }),
      find: (filter, limit) => store.list(filter, limit),
    })
  } finally {
    await connected.close()
  }
}

const everything: DeadLetterFilter = {
  ids: undefined,
  topic: undefined,
  type: undefined,
  key: undefined,
  after: undefined,
}

function selectionOf({ topic, type, key }: Selection): Selection {
  return {
    ...(topic !== undefined && { topic }),
    ...(type !== undefined && { type }),
    ...(key !== undefined && { key }),
  }
}

function tableOf(letters: readonly DeadLetter[]): string {
  const rows = letters.map(({ id, topic, key, deadAt, attempts, error }) => [
    id,
    topic,
    key ?? '',
    deadAt.toISOString(),
    String(attempts),
    shortened(error),
  ])
  return table(['id', 'topic', 'key', 'died', 'attempts', 'error'], rows)
}

function shortened(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ')
  return line.length > 60 ? `${line.slice(0, 59)}…` : line
}
