import { expect, test } from 'vitest'
import { QueueConsumers } from '../../support/subjects/queue-consumers.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target))

/** A trigger that fails as the server does if the disk is full, whenever a message is given back or becomes a dead letter. */
async function fillDisk(): Promise<void> {
  const statements =
    target.engine === 'postgres'
      ? [
          `create function txbox.full() returns trigger language plpgsql as $$ begin
             if old.receipt is not null and new.receipt is null then
               raise 'No space left on device' using errcode = '53100';
             end if;
             return new; end $$`,
          'create trigger full_disk before update on txbox.queue for each row execute function txbox.full()',
        ]
      : [
          `create trigger txbox_full before update on txbox_queue for each row
             if old.receipt is not null and new.receipt is null then
               signal sqlstate 'HY000' set mysql_errno = 1114, message_text = 'The table is full'; end if`,
        ]
  for (const statement of statements) await target.sql(statement)
}

async function freeDisk(): Promise<void> {
  const statements =
    target.engine === 'postgres'
      ? ['drop trigger if exists full_disk on txbox.queue', 'drop function if exists txbox.full()']
      : ['drop trigger if exists txbox_full']
  for (const statement of statements) await target.sql(statement)
}

test('C10 N1 Q10 a message whose settlements a full disk has refused becomes a dead letter with an event', async () => {
  const consumers = new QueueConsumers(target, root, { maxReceives: 2, visibilityTimeoutMs: 1000 })
  const [id] = await consumers.subject.send({ payload: { n: 1 } })
  await fillDisk()
  try {
    const fails = (): never => {
      throw new Error('the handler failed')
    }
    await consumers.start(fails, { retry: { attempts: 2, delayMs: () => 0 } })
    // The retry, and then the dead letter.
    await consumers.heard('error', 2)
  } finally {
    await freeDisk()
  }
  await consumers.heard('dead-lettered', 1)
  expect(consumers.runs).toMatchObject([
    { id, deliveries: 1 },
    { id, deliveries: 2 },
  ])
  const dead = consumers.events.filter(({ event }) => event === 'dead-lettered')
  expect(dead).toMatchObject([{ id, value: { deliveries: 2, message: { id, payload: { n: 1 } } } }])
  expect(String(Reflect.get(dead[0]!.value, 'error'))).toMatch(
    /received 2 times.*no receiver has ever answered/,
  )
  expect(await consumers.subject.queue.deadLetters.list()).toMatchObject([{ id, attempts: 2 }])
  expect(await consumers.subject.size()).toBe(0)
})

test('C10 N1 Q10 each message that was received too often becomes a dead letter with an event, and its key goes on', async () => {
  const consumers = new QueueConsumers(target, root, { maxReceives: 1 })
  const { subject } = consumers
  const keys = Array.from({ length: 25 }, (_, n) => `k${n}`)
  const first = await subject.sendTogether([...keys.map((key) => ({ key, payload: key })), {}, {}])
  const then = await subject.sendTogether(keys.map((key) => ({ key })))
  for (let received = 0; received < first.length;) received += (await subject.receive({ limit: 100 })).length
  await subject.expire()
  await consumers.start(() => undefined, { retry: { attempts: 1, delayMs: () => 0 } })
  await consumers.heard('handled', then.length)
  await consumers.heard('dead-lettered', first.length)
  const ids = (event: string): string[] =>
    consumers.events.filter((one) => one.event === event).map((one) => String(one.id))
  expect(ids('dead-lettered').toSorted()).toEqual(first.toSorted())
  expect(ids('handled').toSorted()).toEqual(then.toSorted())
  const letters = await subject.queue.deadLetters.list({ limit: 100 })
  expect(letters.map(({ id }) => id).toSorted()).toEqual(first.toSorted())
})

test('C10 Q10 the event of a message that was received too often has the last error', async () => {
  const consumers = new QueueConsumers(target, root, { maxReceives: 2 })
  const [id] = await consumers.subject.send({})
  for (const text of ['first', 'last']) {
    const [received] = await consumers.subject.receive()
    await consumers.subject.queue.release(received!, { error: new Error(text) })
  }
  await consumers.start(() => undefined, { retry: { attempts: 2, delayMs: () => 0 } })
  await consumers.heard('dead-lettered', 1)
  const [dead] = consumers.events
  expect(dead).toMatchObject({ event: 'dead-lettered', id, value: { deliveries: 2 } })
  expect(String(Reflect.get(dead!.value, 'error'))).toMatch(/Last error: last/)
})
