import { setTimeout as sleep } from 'node:timers/promises'
import type { TransactionHandle } from '@txbox/core'
import { expect, test } from 'vitest'
import { onEachRoot, useRoot, useTarget } from '../../support/engines/target.ts'
import { VersionBufferUnderTest } from '../../support/subjects/version-buffer-under-test.ts'

const target = useTarget()

onEachRoot(target, (kind) => {
  /** The next transaction gets the connection of the previous one. */
  const root = useRoot(target, kind, { max: 1 })

  for (const fails of [true, false]) {
    test(`V7 a call that waits for its turn behind an apply that ${fails ? 'fails' : 'succeeds'} late does nothing in the next transaction of the connection`, async () => {
      let end = (): void => undefined
      const ended = new Promise<void>((resolve) => (end = resolve))
      let begun = (): void => undefined
      const hasBegun = new Promise<void>((resolve) => (begun = resolve))
      const subject: VersionBufferUnderTest = new VersionBufferUnderTest(target, root, {
        async apply(tx, message) {
          if (message.key !== 'slow') return subject.effect(tx, message)
          begun()
          await ended
          if (fails) throw new Error('late')
        },
      })
      const late: Promise<PromiseSettledResult<unknown>[]>[] = []
      const change = (tx: TransactionHandle, key: string) =>
        subject.buffer.process(tx, { key, from: 0, to: 1, payload: { n: 1 } })
      const refused = root.database.transact(async (tx) => {
        late.push(Promise.allSettled([change(tx, 'slow'), change(tx, 'other')]))
        await hasBegun
        throw new Error('refused')
      })
      await expect(refused).rejects.toThrow('refused')
      await root.database.transact(async (tx: TransactionHandle) => {
        await target.exec(tx, 'select 1')
        end()
        await sleep(60)
        await target.exec(tx, 'select 1')
      })
      const outcomes = await Promise.all(late)
      expect(outcomes.flat().map(({ status }) => status)).toEqual(['rejected', 'rejected'])
      expect([await subject.applied('slow'), await subject.applied('other')]).toEqual([[], []])
      expect(await subject.deliver('other', 0)).toMatchObject({ status: 'applied' })
    })
  }
})
