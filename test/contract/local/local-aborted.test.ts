import { expect, test } from 'vitest'
import type { LocalHandler } from '../../support/subjects/local-parts.ts'
import { LocalUnderTest } from '../../support/subjects/local-under-test.ts'
import { onEachRoot, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const abortions = Object.entries(target.abortions)

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind, { max: 12 })

  /** Handles two messages of a key, of which the first one's handler does something to its transaction. */
  async function handleTwo(meddle: LocalHandler): Promise<{ subject: LocalUnderTest; ids: string[] }> {
    const subject = new LocalUnderTest(target, root)
    const ids = await subject.publish({ key: 'a' }, { key: 'a' })
    await subject.start(
      'billing',
      (tx, message, context) => (message.id === ids[0] ? meddle(tx, message, context) : undefined),
      { retry: { attempts: 3, delayMs: () => 10 } },
    )
    await subject.hears('handled')
    await subject.settled()
    return { subject, ids }
  }

  async function expectDeadByAbortion(subject: LocalUnderTest, id: string): Promise<void> {
    const dead = await subject.deadLetters.list({ consumer: subject.name() })
    expect(dead).toMatchObject([{ id, key: 'a', error: expect.stringContaining('TransactionAbortedError') }])
    const [heard] = subject.heardOf('dead-lettered')
    expect(heard?.error).toMatchObject({ code: 'TXBOX_TRANSACTION_ABORTED' })
  }

  const COMMITTING = [
    ...['commit', 'commit and chain', 'commit | begin'],
    // A statement that commits without saying so, although it changes nothing.
    ...(target.engine === 'postgres' ? [] : ['drop table if exists no_such_table_at_all', 'begin']),
  ]
  for (const fails of [false, true]) {
    test.for(COMMITTING)(
      `L1 L5 I7 a handler that commits in the middle by %s, and ${fails ? 'then fails' : 'succeeds'}: a dead letter with TransactionAbortedError at once`,
      async (statements) => {
        const { subject, ids } = await handleTwo(async (tx) => {
          for (const statement of statements.split(' | ')) await target.exec(tx, statement)
          if (fails) throw new Error('after the commit')
        })
        expect(subject.runsOf(ids[0]).length).toBe(1)
        await expectDeadByAbortion(subject, ids[0]!)
        // The effect from before the commit is there once; the next message of the key goes on.
        expect(await subject.effectsInOrder()).toEqual(ids)
      },
    )
  }

  const ENDING = ['rollback', 'rollback and chain', 'rollback | begin']
  test.for(ENDING)(
    'L1 L5 I7 a handler that ends its transaction by %s: a dead letter with TransactionAbortedError in the end, without the effect',
    async (statements) => {
      const { subject, ids } = await handleTwo(async (tx) => {
        for (const statement of statements.split(' | ')) await target.exec(tx, statement)
      })
      expect(subject.runsOf(ids[0]).length).toBeLessThanOrEqual(3)
      await expectDeadByAbortion(subject, ids[0]!)
      expect(await subject.effectsInOrder()).toEqual([ids[1]])
    },
  )

  test('L1 I7 a handler answers before a helper of it, which nothing awaits, has sent ROLLBACK: the message is not removed without the effect', async () => {
    const { subject, ids } = await handleTwo((tx) => {
      const late = async (): Promise<void> => {
        await target.exec(tx, 'select 1')
        await target.exec(tx, 'rollback')
      }
      void late().catch(() => undefined)
    })
    const dead = await subject.deadLetters.list({ consumer: subject.name() })
    expect((await subject.effects(ids[0])) + dead.length).toBe(1)
    expect(await subject.effects(ids[1])).toBe(1)
  })

  test.for(abortions)(
    'L1 L5 I7 a handler swallows the error of %s: counted tries, and then a dead letter with TransactionAbortedError',
    async ([, abort]) => {
      const { subject, ids } = await handleTwo(async (tx) => {
        await abort(tx).catch(() => undefined)
      })
      expect(subject.runsOf(ids[0]).map(({ deliveries }) => deliveries)).toEqual([1, 2, 3])
      await expectDeadByAbortion(subject, ids[0]!)
      expect(await subject.effectsInOrder()).toEqual([ids[1]])
    },
  )

  test('L1 L5 I7 a handler swallows an error once: the second try takes effect once', async () => {
    const { subject, ids } = await handleTwo(async (tx, _message, { deliveries }) => {
      if (deliveries === 1) await abortions[0]![1](tx).catch(() => undefined)
    })
    expect(await subject.effectsInOrder()).toEqual(ids)
    expect(await subject.deadLetters.list({ consumer: subject.name() })).toEqual([])
  })

  test('L1 I7 a handler that recovers with a savepoint commits', async () => {
    const { subject, ids } = await handleTwo(async (tx) => {
      for (const fail of Object.values(target.recoverable)) {
        await target.exec(tx, 'savepoint attempt')
        await fail(tx).catch(() => undefined)
        await target.exec(tx, 'rollback to savepoint attempt')
      }
    })
    expect(await subject.effectsInOrder()).toEqual(ids)
    expect(subject.heardOf('retried')).toEqual([])
  })

  test('L1 the error of a handler that swallowed another error before is the one that is kept', async () => {
    const { subject, ids } = await handleTwo(async (tx) => {
      await abortions[0]![1](tx).catch(() => undefined)
      throw new Error('its own error')
    })
    const dead = await subject.deadLetters.list({ consumer: subject.name() })
    expect(dead).toMatchObject([{ id: ids[0], error: expect.stringContaining('its own error') }])
    expect(await subject.effectsInOrder()).toEqual([ids[1]])
  })

  if (target.engine === 'postgres') {
    test('L1 L5 a change that only COMMIT refuses fails the try, and leaves the message', async () => {
      const { subject, ids } = await handleTwo(async (tx, _message, { deliveries }) => {
        if (deliveries === 1) await target.failAtCommit!(tx)
      })
      expect(subject.runsOf(ids[0]).map(({ deliveries }) => deliveries)).toEqual([1, 2])
      expect(await subject.effectsInOrder()).toEqual(ids)
    })
  }
})
