import { expect, inject, test } from 'vitest'
import { UnsupportedTransactionError, type TransactionHandle } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { importLibrary } from '../libraries/library-under-test.ts'
import { useTarget } from '../support/engines/target.ts'

const target = useTarget()

test('Prisma with prepared statements is refused on MySQL, which prepares no savepoints, and nothing is written', async () => {
  // The library under test takes prepared statements for MariaDB, also in front of a MySQL.
  const { open } = await importLibrary('prisma', 'mariadb')
  const [database] = await target.sql('select database() as name')
  const url = new URL(inject('servers')[target.engine]!)
  url.pathname = String(database?.['name'])
  const root = open({ url: url.href, engine: 'mariadb', max: 2, isolation: undefined })
  const inbox = createInbox({ database: target.detached(), consumer: 'prepared' })
  const outbox = createOutbox({ database: target.detached() })
  const calls = [
    (tx: object) => outbox.publish(tx as TransactionHandle, { topic: 't', payload: 1 }),
    (tx: object) => inbox.process(tx as TransactionHandle, { id: 'm' }, () => undefined),
  ]
  for (const call of calls) {
    const done = root.transact<unknown>(call)
    if (target.engine === 'mariadb') {
      await done
    } else {
      await expect(done).rejects.toThrow(UnsupportedTransactionError)
      await expect(done).rejects.toThrow(/useTextProtocol: true/)
    }
  }
  await root.close()
  const stored = await target.sql(`select 1 from ${target.outboxTable}`)
  const written = target.engine === 'mariadb' ? 1 : 0
  expect([stored.length, (await target.claims('prepared')).length]).toEqual([written, written])
})
