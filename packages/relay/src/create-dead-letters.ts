import { hostname, userInfo } from 'node:os'
import {
  InvalidOptionError,
  LIMITS,
  OptionChecker,
  connectedPortsOf,
  type ConnectedDatabase,
  type DeadLetter,
  type DeadLetterFilter,
} from '@txbox/core'

const PAGE = 1000
const STATEMENT_TIMEOUT_MS = 60_000
const NAMES = ['ids', 'topic', 'type', 'key'] as const

/** Which dead letters are meant: those that match all that is given. */
export interface DeadLetterSelection {
  /** At most 10 000. */
  readonly ids?: readonly string[] | undefined
  readonly topic?: string | undefined
  readonly type?: string | undefined
  /** The ordering key. */
  readonly key?: string | undefined
}

/** Messages that gave up, and what to do with them. */
export interface DeadLetters {
  /**
   * In the order of their ids; those that txbox makes are in the order of time.
   *
   * @throws {InvalidOptionError} for an unknown or wrong option.
   */
  list(
    selection?: Omit<DeadLetterSelection, 'ids'> & {
      /** 1 to 1000. @default 100 */
      readonly limit?: number | undefined
      /** Only those whose id comes after this one: the last of the page before. */
      readonly after?: string | undefined
    },
  ): Promise<readonly DeadLetter[]>
  /**
   * Puts them back: with the same ids and no attempts counted, due at once, and before whatever of their keys has been
   * parked since or comes later. Once, however often it is asked; who did it and when is kept in the table of redrives.
   * → those that were put back by this call.
   *
   * @throws {InvalidOptionError} without any selection: `{ topic }`, `{ type }`, `{ key }` or `{ ids }`.
   */
  redrive(selection: DeadLetterSelection): Promise<readonly DeadLetter[]>
  /** Deletes them. → those that this call has deleted. @throws {InvalidOptionError} as `redrive`. */
  discard(selection: DeadLetterSelection): Promise<readonly DeadLetter[]>
}

/**
 * The dead letters of an outbox: messages whose last attempt failed, or that were refused for good. No relay need run.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option, or a database without a `db`.
 */
export function createDeadLetters(options: {
  // oxlint-disable-next-line typescript/no-explicit-any -- opens no transactions of the user's type
  database: ConnectedDatabase<any>
  /** Who redrives, for the record; 1 to 200 characters. @default the user's name and that of the host */
  by?: string | undefined
}): DeadLetters {
  const check = new OptionChecker('createDeadLetters', options).known('database', 'by')
  const by = check.text('by', { max: 200, default: whoAmI() })
  const ports = connectedPortsOf('createDeadLetters', options.database)
  const store = ports.deadLetters({ statementTimeoutMs: STATEMENT_TIMEOUT_MS })

  /** Page by page, so that each statement is short; onward only, so that what dies again meanwhile is not met again. */
  async function inPages(
    filter: DeadLetterFilter,
    touch: (filter: DeadLetterFilter) => Promise<readonly DeadLetter[]>,
  ): Promise<readonly DeadLetter[]> {
    const touched: DeadLetter[] = []
    for (let after: string | undefined; ;) {
      const page = await touch({ ...filter, after })
      for (const letter of page) touched.push(letter)
      if (page.length < PAGE) return touched
      after = page.at(-1)!.id
    }
  }

  return {
    async list(selection = {}) {
      const where = 'list'
      const checkList = new OptionChecker(where, selection).known('topic', 'type', 'key', 'limit', 'after')
      const limit = checkList.integer('limit', { min: 1, max: PAGE, default: 100 })
      const after = optionalText(checkList, 'after', selection.after, LIMITS.messageIdCharacters)
      return store.list({ ...filterOf(where, selection), after }, limit)
    },
    redrive: async (selection) =>
      inPages(selected('redrive', selection), (filter) => store.redrive(filter, PAGE, by)),
    discard: async (selection) =>
      inPages(selected('discard', selection), (filter) => store.discard(filter, PAGE)),
  }
}

/** All of them is never meant by accident. */
function selected(where: string, selection: DeadLetterSelection): DeadLetterFilter {
  new OptionChecker(where, selection).known(...NAMES)
  if (NAMES.every((name) => selection[name] === undefined)) {
    throw new InvalidOptionError(
      `${where}: say which dead letters are meant, by 'ids', 'topic', 'type' or 'key'.`,
    )
  }
  return filterOf(where, selection)
}

function filterOf(where: string, selection: DeadLetterSelection): DeadLetterFilter {
  const check = new OptionChecker(where, selection)
  const { ids } = selection
  if (
    ids !== undefined &&
    (!Array.isArray(ids) || ids.length > LIMITS.batchMessages || ids.some((id) => typeof id !== 'string'))
  ) {
    throw check.wrong('ids', `a list of at most ${LIMITS.batchMessages} ids`)
  }
  return {
    ids,
    topic: optionalText(check, 'topic', selection.topic, LIMITS.topicCharacters),
    type: optionalText(check, 'type', selection.type, LIMITS.typeCharacters),
    key: optionalText(check, 'key', selection.key, LIMITS.orderingKeyCharacters),
    after: undefined,
  }
}

function optionalText(
  check: OptionChecker,
  name: string,
  value: string | undefined,
  max: number,
): string | undefined {
  return value === undefined ? undefined : check.text(name, { max })
}

function whoAmI(): string {
  let user = 'unknown'
  try {
    user = userInfo().username
  } catch {
    // A process need not have an entry in the list of users.
  }
  return `${user}@${hostname()}`.slice(0, 200)
}
