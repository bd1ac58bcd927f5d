import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { ReceiptExpiredError, type Delivery, type Session, type Source } from '@txbox/core'
import { portsOf, isConnected } from '@txbox/core/internal'
import { queueSource } from '@txbox/queue'
import { QueueConsumers } from '../../support/subjects/queue-consumers.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
/** The next transaction gets the connection of the previous one. */
const root = useRoot(target, mainKind(target), { max: 1 })

type Settle = (delivery: Delivery, session: Session, settle: () => Promise<void>) => Promise<void>

/** A source whose deliveries are settled by `settle` in a transaction of the consumer. */
function withSettlements(source: Source, settle: Settle): Source {
  return {
    ...source,
    async open(options) {
      const opened = await source.open(options)
      return {
        async receive(limit, how) {
          const deliveries = await opened.receive(limit, how)
          for (const delivery of deliveries) {
            const original = delivery.settleInSession!.bind(delivery)
            delivery.settleInSession = (session) => settle(delivery, session, () => original(session))
          }
          return deliveries
        },
        close: () => opened.close(),
      }
    },
  }
}

test('C26 Q21 when a delivery of a batch has been lost, settlements of the others that are still in flight settle nothing in later transactions', async () => {
  const consumers = new QueueConsumers(target, root, { visibilityTimeoutMs: 60_000 })
  const [first, second, third] = await consumers.subject.sendTogether([{}, {}, {}])
  const seen = new Set<string>()
  let isSettledInTime = false
  const source = withSettlements(
    queueSource(consumers.subject.queue),
    async ({ message: { id } }, _, settle) => {
      const isFirstTime = !seen.has(id)
      seen.add(id)
      if (isFirstTime && id === first) throw new ReceiptExpiredError('Another receiver has the message.')
      if (isFirstTime && id === third) await sleep(50)
      await settle()
      if (isFirstTime && id === third) isSettledInTime = true
    },
  )
  // The transaction of the second message is open when the settlement of the third one goes on.
  await consumers.startBatch(() => sleep(150), { source, batch: { maxSize: 3, lingerMs: 500 } })
  await consumers.heard('handled', 2)
  expect(isSettledInTime, 'the transaction waits for its settlements').toBe(true)
  expect(await Promise.all([first, second, third].map((id) => consumers.effects(id!)))).toEqual([0, 1, 1])
  expect(consumers.events.filter(({ event }) => event === 'lost').map(({ id }) => id)).toEqual([first])
})

test.each(['commit', 'rollback'])(
  'I2 Q21 a session of txbox whose transaction has ended by %s writes nothing in the next transaction of the connection',
  async (end) => {
    const ports = portsOf('test', root.database)
    if (!isConnected(ports)) throw new Error('The root opens transactions.')
    let ended: Session | undefined
    const work = ports.transact(
      async (_tx, session) => {
        ended = session
        const claim = { consumer: 'late', key: `${end} 1`, retentionMs: 60_000 }
        await ports.inbox.claim(session, claim as never)
        if (end === 'rollback') throw new Error('refused')
      },
      { signal: undefined },
    )
    if (end === 'commit') await work
    else await expect(work).rejects.toThrow('refused')
    await ports.transact(
      async (_tx, session) => {
        // The first statement opens the transaction.
        await ports.inbox.find(session, 'late', 'another')
        const claim = { consumer: 'late', key: `${end} 2`, retentionMs: 60_000 }
        await expect(ports.inbox.claim(ended!, claim as never)).rejects.toMatchObject({
          code: 'TXBOX_NOT_IN_TRANSACTION',
        })
      },
      { signal: undefined },
    )
    const found = await ports.transact(
      (_tx, session) => Promise.all([1, 2].map((n) => ports.inbox.find(session, 'late', `${end} ${n}`))),
      { signal: undefined },
    )
    expect(found).toEqual([end === 'commit', false])
  },
)
