import type { DeadLetter } from '@txbox/core'
import { readableNumber } from '@txbox/core/internal'
import { everything, selectionOf, type DeadLettersOptions, type Tools } from './dead-letters-tools.ts'
import { shortened, table } from './layout.ts'
import { counted, write, writeJson } from './terminal.ts'
import { visible } from './visible.ts'

/** How many dead letters are searched for an error: no index finds errors. */
const SEARCHED = 10_000
const REASON_CHARACTERS = 200

interface Newest {
  readonly letters: readonly DeadLetter[]
  /** A sentence that says that older dead letters were not searched; absent if all were. */
  readonly bound: string | undefined
}

/** The newest dead letters of a selection, without regard to its error. */
async function newest({ store }: Tools, options: DeadLettersOptions): Promise<Newest> {
  const { error: _, ...selection } = selectionOf(options)
  const letters = await store.newest({ ...everything, ...selection }, SEARCHED)
  const bound =
    letters.length < SEARCHED
      ? undefined
      : `Only the newest ${readableNumber(SEARCHED)} dead letters were searched.`
  return { letters, bound }
}

/** The ids of the dead letters whose error contains `--error`, among the newest ones. */
export async function idsWithError(
  tools: Tools,
  options: DeadLettersOptions & { readonly error: string },
): Promise<{ readonly ids: readonly string[]; readonly bound: string | undefined }> {
  const { letters, bound } = await newest(tools, options)
  const matching = letters.filter(({ error }) => error.includes(options.error))
  return { ids: [...new Set(matching.map(({ id }) => id))], bound }
}

/** `txbox dead-letters list --by error`: the errors of the newest dead letters, the most frequent first. */
export async function listByError(tools: Tools, options: DeadLettersOptions): Promise<void> {
  const { letters, bound } = await newest(tools, options)
  const wanted = letters.filter(({ error }) => error.includes(options.error ?? ''))
  const groups = [...Map.groupBy(wanted, ({ error }) => kindOf(error)).values()].toSorted(
    (a, b) => b.length - a.length,
  )
  if (options.json === true) {
    for (const group of groups) {
      const [{ id, error, deadAt }] = group as [DeadLetter, ...DeadLetter[]]
      const topics = [...new Set(group.flatMap(({ topic }) => (topic === undefined ? [] : [topic])))]
      writeJson({ error, count: group.length, newestAt: deadAt, id, topics })
    }
    return
  }
  if (groups.length === 0) return write('No dead letters.')
  const rows = groups.map((group) => {
    const [{ id, error, deadAt }] = group as [DeadLetter, ...DeadLetter[]]
    return [readableNumber(group.length), reasonOf(error), deadAt.toISOString(), visible(id)]
  })
  const total = `${counted({ count: groups.length }, 'kind')} of errors of ${counted({ count: wanted.length }, 'dead letter')}.`
  write(
    `${table(['letters', 'error', 'newest', 'its id'], rows)}\n\n${[total, bound].filter(Boolean).join(' ')}`,
  )
}

/** The first line of an error, as a cell of a table. */
export function reasonOf(error: string): string {
  return visible(shortened(firstLine(error), REASON_CHARACTERS))
}

function firstLine(error: string): string {
  return error.trim().split('\n', 1)[0]!
}

/** Errors that differ only in numbers and ids are of one kind: a word with a digit is one of these. */
function kindOf(error: string): string {
  return firstLine(error).replaceAll(/[\p{L}\p{N}_-]*\p{N}[\p{L}\p{N}_-]*/gu, '#')
}
