import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { connectedPortsOf } from '@txbox/core/internal'
import { libraryUnderTest } from '../support/engines/library-roots.ts'
import type { HandleKind, Target } from '../support/engines/target.ts'
import { LocalUnderTest } from '../support/subjects/local-under-test.ts'
import { until } from '../support/worlds/until.ts'

/**
 * When a server of PostgreSQL ends the transactions of a library.
 *
 * @param isAlone there is one connection only, as on PGlite.
 */
export function idleRules(target: Target, kind: HandleKind, isAlone: boolean): void {
  const limitIn = async (tx: object): Promise<unknown> => {
    const setting = "select current_setting('idle_in_transaction_session_timeout') as setting"
    return (await libraryUnderTest!.exec(tx, setting, []))[0]?.['setting']
  }
  const open = async () => {
    // One connection, which all transactions get, unless it stays taken when it has broken.
    const root = target.open(kind, { max: libraryUnderTest!.losesBrokenConnection === true ? 2 : 1 })
    await root.ready?.()
    onTestFinished(() => root.close())
    const ports = connectedPortsOf('test', root.database)
    return <R>(
      work: (tx: object) => Promise<R>,
      options: Parameters<typeof ports.transact>[1] = {},
    ): Promise<R> => ports.transact((tx, session) => ports.watch(session, () => work(tx as object)), options)
  }

  if (libraryUnderTest!.rootFor === 'all') {
    test('L5 a handler that takes longer than its time, and than the server allows, is tried again, and has its effect once', async () => {
      const root = target.open(kind, { max: 8 })
      await root.ready?.()
      onTestFinished(() => root.close())
      const subject = new LocalUnderTest(target, root)
      const ids = await subject.publish({ key: 'a' }, { key: 'a' })
      let calls = 0
      const slowOnce = async (): Promise<void> => {
        // The server's limit is a second longer than the time of the handler.
        if (++calls === 1) await sleep(2500)
      }
      const retry = { attempts: 10, delayMs: () => 10 }
      await subject.start('billing', slowOnce, { handleTimeoutMs: 500, retry, concurrency: 2 })
      await subject.settled()
      expect(await subject.effectsInOrder()).toEqual(ids)
    })
  }

  if (isAlone || libraryUnderTest!.keepsIdleTransactions === true) {
    test('the server does not end an idle transaction, with which more would end', async () => {
      const transact = await open()
      const before = await transact(limitIn)
      expect(await transact(limitIn, { idleLimitMs: 30_000 })).toBe(before)
    })
    return
  }

  test.each([undefined, 'repeatable read'] as const)(
    'L4 the server ends the transaction of a handler that is frozen, and the time that it allows is for this transaction only: %s',
    async (isolation) => {
      const transact = await open()
      const before = await transact(limitIn)
      expect(await transact(limitIn, { isolation, idleLimitMs: 30_000 })).toBe('30s')
      expect(await transact(limitIn)).toBe(before)

      const name = randomUUID()
      await target.sql('insert into effects (name) values (?)', [name])
      let isEnded = false
      const frozen = transact(
        async (tx) => {
          await libraryUnderTest!.exec(tx, 'select 1 as one from effects where name = $1 for update', [name])
          const isFree = async (): Promise<boolean> =>
            (await target.sql('select 1 from effects where name = ? for update skip locked', [name])).length >
            0
          expect(await isFree()).toBe(false)
          await until(isFree, () => 'the server has not ended the transaction')
          isEnded = true
        },
        { isolation, idleLimitMs: 500 },
      )
      await expect(frozen).rejects.toThrow()
      // Some libraries reject as soon as the connection has ended.
      await until(
        async () => isEnded,
        () => 'the row is locked',
      )
      expect(await transact(limitIn)).toBe(before)
    },
  )
}
