import { afterEach, expect, test } from 'vitest'
import { SchemaError, type NewMessage } from '@txbox/core'
import type { Finding } from '@txbox/core/ports'
import { connectedPortsOf, keyLocksOf } from '@txbox/core/internal'
import { createOutbox, type Outbox } from '@txbox/outbox'
import { KEY_LOCKS } from '../../packages/mysql/src/outbox/outbox-statements.ts'
import { migrationsOf, statementsOf } from '../support/engines/migrations.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target))

/** The row that a publisher locks for a key. */
function lockRowOf(key: string): number {
  const [lock] = keyLocksOf([{ key }], '')
  return Number(BigInt.asUintN(64, lock!) % BigInt(KEY_LOCKS))
}

function named(key: string): NewMessage & { topic: string } {
  return { topic: 'test', key, payload: null }
}

const publisher = (): Outbox => createOutbox({ database: root.database, lockKeys: true })

async function keyLocksFinding(): Promise<Finding | undefined> {
  const findings = await connectedPortsOf('test', root.database)
    .inspection()
    .diagnose({ longTransactionMs: 60_000 })
  return findings.find(({ check }) => check === 'key locks')
}

/** Runs the file of the migration, as the error and the doctor advise. */
async function runMigrationFile(): Promise<void> {
  const file = migrationsOf(target, 'txbox_').find(({ name }) => name === '0009_key_locks')
  for (const statement of statementsOf(file!.sql)) await target.sql(statement)
}

afterEach(runMigrationFile)

for (const [what, messages] of [
  ['one message', named('hot')],
  ['an array', [named('cold'), named('hot'), named('cold')]],
] as const) {
  for (const mode of ['as usual', 'empty']) {
    test(`a missing row of the table of locks is an error, and nothing is written: ${what}, sql_mode ${mode}`, async () => {
      await target.sql('delete from txbox_key_locks where number = ?', [lockRowOf('hot')])
      const transaction = await root.begin()
      if (mode === 'empty') await transaction.exec("set session sql_mode = ''")
      const published = publisher().publish(transaction.tx, messages)
      await expect(published).rejects.toThrow(SchemaError)
      await expect(published).rejects.toThrow(/0009_key_locks/)
      await publisher().publish(transaction.tx, named('cold'))
      await transaction.commit()
      expect((await outbox.backlog()).map(({ key }) => key)).toEqual(['cold'])

      expect(await keyLocksFinding()).toMatchObject({ verdict: 'problem', found: '16,383 of 16,384 rows' })
      await runMigrationFile()
      expect(await keyLocksFinding()).toMatchObject({ verdict: 'ok' })
      const again = await root.begin()
      await publisher().publish(again.tx, named('hot'))
      await again.commit()
      expect(await outbox.backlogSize()).toBe(2)
    })
  }
}

test('O3 with lockKeys two keys may share a row: in one call they are locked once, and two transactions wait', async () => {
  const keyOfRow = new Map<number, string>()
  const findPair = (): [string, string] => {
    for (let n = 0; ; n += 1) {
      const key = `key-${n}`
      const other = keyOfRow.get(lockRowOf(key))
      if (other !== undefined) return [other, key]
      keyOfRow.set(lockRowOf(key), key)
    }
  }
  const [one, other] = findPair()
  const [first, second] = [await root.begin(), await root.begin()]
  await publisher().publish(first.tx, [named(one), named(other), named('another')])
  const published = publisher().publish(second.tx, [named('yet another'), named(other)])
  await target.blocked(1)
  await first.commit()
  await published
  await second.commit()
  expect(await outbox.backlogSize()).toBe(5)
})

test('O3 with lockKeys a call with many keys locks the rows of its keys and no others', async () => {
  const many = Array.from({ length: 1000 }, (_, n) => `key-${n}`)
  const locked = new Set(many.map(lockRowOf))
  const free = Array.from({ length: 1000 }, (_, n) => `other-${n}`).filter(
    (key) => !locked.has(lockRowOf(key)),
  )
  expect(free.length).toBeGreaterThan(800)
  const [first, second] = [await root.begin(), await root.begin()]
  await target.limitLockWait(second, 1000)
  await publisher().publish(first.tx, many.map(named))
  await publisher().publish(second.tx, free.map(named))
  await second.commit()
  await first.commit()
  expect(await outbox.backlogSize()).toBe(many.length + free.length)
})
