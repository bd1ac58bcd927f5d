import { expect, test } from 'vitest'
import { InvalidOptionError, UnsupportedTransactionError, type TransactionHandle } from '@txbox/core'
import { createOutbox } from '@txbox/outbox'
import { migrate, postgres } from '@txbox/postgres'
import { load } from '../libraries/newest/load.ts'

interface NeonHttp {
  (strings: TemplateStringsArray): PromiseLike<unknown>
  transaction(queries: (sql: NeonHttp) => readonly unknown[]): Promise<unknown>
}

const { neon, Client } = (await load('@neondatabase/serverless')) as {
  readonly neon: (url: string) => NeonHttp
  readonly Client: new (url: string) => object
}
const { drizzle } = (await load('drizzle-orm/neon-http')) as {
  readonly drizzle: (options: { client: NeonHttp }) => object
}
const URL_OF_NOBODY = 'postgresql://user:secret@127.0.0.1:1/nowhere'
const sql = neon(URL_OF_NOBODY)
const onHttp = drizzle({ client: sql })

/** The error of a publish in something that is no transaction. */
async function refusalOf(handle: unknown): Promise<unknown> {
  const outbox = createOutbox({ database: postgres() })
  return outbox
    .publish(handle as TransactionHandle, { topic: 't', payload: {} })
    .catch((error: unknown) => error)
}

/** What a user can pass instead. */
const INSTEAD = [/a request of its own/, /'@neondatabase\/serverless'/, /\bPool\b/, /after BEGIN/]

for (const [name, handle] of [
  ['neon()', sql],
  ['a database of drizzle-orm/neon-http', onHttp],
] as const) {
  test(`${name} is refused as a transaction, and the error says what to pass instead`, async () => {
    const error = await refusalOf(handle)
    expect(error).toBeInstanceOf(UnsupportedTransactionError)
    for (const part of INSTEAD) expect((error as Error).message).toMatch(part)
    expect((error as Error).message).not.toMatch(/secret/)
  })
}

test('what sql.transaction of neon() passes to its function is refused in the same way', async () => {
  let refusal: Promise<unknown> | undefined
  // The request itself fails, because there is no server.
  await sql
    .transaction((inner) => {
      refusal = refusalOf(inner)
      return [inner`select 1`]
    })
    .catch(() => undefined)
  expect(await refusal).toBeInstanceOf(UnsupportedTransactionError)
  expect(((await refusal) as Error).message).toMatch(/sql\.transaction/)
})

for (const [name, root] of [
  ['neon()', sql],
  ['a database of drizzle-orm/neon-http', onHttp],
] as const) {
  test(`${name} is refused as a root, and the error says what to pass instead`, async () => {
    const open = (): unknown => postgres({ db: root as never })
    expect(open).toThrow(InvalidOptionError)
    expect(open).toThrow(/a request of its own/)
    expect(open).toThrow(/new Pool\(…\) of '@neondatabase\/serverless'/)
    await expect(migrate(root as never)).rejects.toThrow(/new Pool\(…\) of '@neondatabase\/serverless'/)
  })
}

test("a client of Neon's driver that is not connected is refused at once", async () => {
  expect(await refusalOf(new Client(URL_OF_NOBODY))).toMatchObject({ code: 'TXBOX_NOT_IN_TRANSACTION' })
})
