import { expect, test } from 'vitest'
import { ReceiptExpiredError } from '@txbox/core'
import { QueueStoreUnderTest } from '../support/subjects/queue-store-under-test.ts'
import { QueueUnderTest } from '../support/subjects/queue-under-test.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 6 })
const strict = useRoot(target, mainKind(target), { isolation: 'repeatable read', max: 6 })

test('Q9 settling messages with and without a key by one call fails for all or for none', async () => {
  const queue = new QueueStoreUnderTest(root)
  await queue.send('a', undefined)
  const received = await queue.receive()
  await target.sql(`create function refuse() returns trigger language plpgsql as $$
    begin raise exception 'refused'; end $$`)
  await target.sql(
    `create trigger refuse before delete on txbox.queue for each row execute function refuse()`,
  )
  await expect(queue.store.settle(undefined, received)).rejects.toThrow('refused')
  await target.sql('drop function refuse cascade')
  expect(await queue.store.settle(undefined, received)).toEqual([true, true])
})

test('Q7 at REPEATABLE READ a transaction cannot delete a message that was received after its first statement', async () => {
  const subject = new QueueUnderTest(target, strict)
  await subject.send({ key: 'a' })
  const early = await strict.begin()
  await early.exec('select 1')
  const received = await subject.receiveOne()
  await expect(subject.queue.delete(received, { tx: early.tx })).rejects.toThrow(ReceiptExpiredError)
  await early.rollback()
  const work = await strict.begin()
  await subject.queue.delete(received, { tx: work.tx })
  await work.commit()
  expect(await subject.size()).toBe(0)
})
