import { setImmediate } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { DatabaseUnavailableError, type TransactionHandle } from '@txbox/core'
import { InboxUnderTest } from '../../support/inbox-under-test.ts'
import { libraryUnderTest } from '../../support/library-roots.ts'
import { useTarget, type Root } from '../../support/target.ts'

// postgres.js uses the object of a lost connection again, for the connection that replaces it.

const target = useTarget()
const { exec } = libraryUnderTest!

function singleConnection(): Root {
  const single = target.open(target.kinds[0]!, { max: 1 })
  onTestFinished(() => single.close())
  return single
}

async function kill(tx: TransactionHandle): Promise<void> {
  const [row] = await exec(tx, 'select pg_backend_pid() as pid', [])
  await target.sql('select pg_terminate_backend(?)', [row!['pid']])
}

for (const isFailing of [false, true]) {
  test(`the ROLLBACK of a lost transaction does not undo the next one on its connection (fails: ${isFailing})`, async () => {
    const subject = new InboxUnderTest(target, singleConnection())
    const killed = Promise.withResolvers<void>()
    const [begun, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const lost = subject.inbox.run({ id: 'lost' }, async (tx) => {
      await kill(tx)
      killed.resolve()
      await begun.promise
      ended.resolve()
      if (isFailing) throw new Error('of the handler')
    })
    const refused = expect(lost).rejects.toThrow(DatabaseUnavailableError)
    await killed.promise
    const next = await subject.inbox.run({ id: 'next' }, async (tx, message, context) => {
      await subject.handle(tx, message, context)
      begun.resolve()
      await ended.promise
      for (let turn = 0; turn < 3; turn++) await setImmediate()
      await subject.handle(tx, message, context)
    })
    await refused
    expect([next.status, await subject.claimedKeys(), await subject.effects()]).toEqual([
      'processed',
      ['next'],
      2,
    ])
  })
}
