import { expect, test } from 'vitest'
import { InboxUnderTest } from '../../support/subjects/inbox-under-test.ts'
import { ChangingHandler, ORDER, conflict } from '../../support/subjects/changing-handler.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target))
const order = (id: string) => ({ id, headers: { region: 'eu' }, payload: structuredClone(ORDER) })

test('I5 each attempt of run sees the message as it was passed, whatever an earlier attempt has changed in it', async () => {
  const subject = new InboxUnderTest(target, root)
  const handler = new ChangingHandler()
  const message = order('a')
  const conflicts: number[] = []
  const outcome = await subject.inbox.run(
    message,
    (_tx, given) => {
      if (handler.attempts.length === 0) expect(given).toBe(message)
      if (handler.change(given) < 3) throw conflict()
    },
    { onConflict: (_error, delayMs) => conflicts.push(delayMs) },
  )
  expect(outcome).toMatchObject({ status: 'processed', key: 'a' })
  expect(handler.attempts).toEqual(Array(3).fill('a 900 2 region=eu'))
  expect(conflicts.length).toBe(2)
  expect(await subject.claimedKeys()).toEqual(['a'])
})

test('I5 bytes are as they were passed, too', async () => {
  const subject = new InboxUnderTest(target, root)
  const seen: string[] = []
  await subject.inbox.run({ id: 'a', payload: Buffer.from('abc') }, (_tx, { payload }) => {
    const bytes = payload as Buffer
    seen.push(bytes.toString())
    bytes.fill('x')
    if (seen.length < 3) throw conflict()
  })
  expect(seen).toEqual(['abc', 'abc', 'abc'])
})

test('I5 I13 each attempt of runBatch sees the messages as they were passed', async () => {
  const subject = new InboxUnderTest(target, root)
  const handler = new ChangingHandler()
  await subject.inbox.runBatch([order('a'), order('a'), order('b')], (_tx, fresh) => {
    for (const message of fresh) handler.change(message)
    if (handler.attempts.length < 6) throw conflict()
  })
  expect(handler.attempts).toEqual(
    Array.from({ length: 3 }, () => ['a 900 2 region=eu', 'b 900 2 region=eu']).flat(),
  )
  expect(await subject.claimedKeys()).toEqual(['a', 'b'])
})

test('I5 with copy: false each attempt gets the same object', async () => {
  const subject = new InboxUnderTest(target, root)
  const message = order('a')
  const given: unknown[] = []
  await subject.inbox.run(
    message,
    (_tx, each) => {
      if (given.push(each) < 2) throw conflict()
    },
    { copy: false },
  )
  expect(given.every((each) => each === message)).toBe(true)
  await expect(subject.inbox.run(message, () => undefined, { copy: 1 as never })).rejects.toMatchObject({
    code: 'TXBOX_INVALID_OPTION',
  })
})
