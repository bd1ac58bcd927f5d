import type { Row } from './target.ts'

/** One open transaction, as the server describes it. */
export interface TransactionStatus {
  readonly thread: number
  readonly id: string
  /** Whether the transaction waits for a lock of another transaction. */
  readonly waits: boolean
  readonly hasWritten: boolean
  readonly text: string
}

/**
 * The open transactions of the connections to this database. information_schema.innodb_trx is not used: it is a cache,
 * which is not refreshed while it is queried frequently.
 */
export async function openTransactions(
  sql: (text: string) => Promise<readonly Row[]>,
): Promise<readonly TransactionStatus[]> {
  const [status] = await sql('show engine innodb status')
  const threads = await sql('select id as thread from information_schema.processlist where db = database()')
  const known = new Set(threads.map((row) => Number(row['thread'])))
  const [, list = ''] = String(status?.['Status']).split('LIST OF TRANSACTIONS FOR EACH SESSION:')
  return list
    .split('---TRANSACTION ')
    .slice(1)
    .map((text) => ({
      thread: Number(/thread id (\d+)/.exec(text)?.[1]),
      id: text.slice(0, text.indexOf(',')),
      waits: text.includes('\nLOCK WAIT'),
      hasWritten: /undo log entries [1-9]/.test(text),
      text,
    }))
    .filter(({ thread, text }) => known.has(thread) && !text.includes(', not started'))
}
