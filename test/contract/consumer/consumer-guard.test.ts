import { expect, test } from 'vitest'
import type { TransactionHandle } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { QueueConsumers } from '../../support/subjects/queue-consumers.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 20 })

for (const work of ['database', 'inbox'] as const) {
  for (const how of ['start', 'startBatch'] as const) {
    test(`a guard that answers neither 'apply' nor 'stale' fails the message (${work}, ${how})`, async () => {
      const consumers = new QueueConsumers(target, root)
      const consumer = consumers.subject.queue.name
      const inbox = createInbox<TransactionHandle>({ database: root.database, consumer })
      await consumers[how](() => undefined, {
        ...(work === 'inbox' && { database: undefined, inbox }),
        guard: (_tx: unknown, { id }: { id: string }) => (id === 'good' ? 'apply' : id === 'bad' && 'aply'),
        retry: { attempts: 2, delayMs: () => 10 },
      })
      await consumers.subject.send({ id: 'false' }, { id: 'bad' }, { id: 'good' })
      await consumers.heard('dead-lettered', 2)
      await consumers.heard('handled')
      const errors = consumers.events.flatMap(({ event, id, value }) =>
        event === 'dead-lettered' ? [[id, String(Reflect.get(value, 'error'))]] : [],
      )
      const text = "createConsumer: the option 'guard' must return 'apply' or 'stale', not "
      expect(Object.fromEntries(errors)).toEqual({
        false: expect.stringContaining(`${text}false.`),
        bad: expect.stringContaining(`${text}a string of 4 characters.`),
      })
      expect(consumers.count('retried')).toBe(2)
      expect(await consumers.effectsInOrder()).toEqual(['good'])
    })
  }
}
