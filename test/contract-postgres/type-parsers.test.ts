import { types as parsers } from 'pg'
import { expect, test } from 'vitest'
import { RelayUnderTest, publishTogether } from '../support/subjects/relay-under-test.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { Broker } from '../support/worlds/broker.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target))
const { INT2, INT4, INT8, BOOL, BYTEA, NUMERIC, TIMESTAMPTZ } = parsers.builtins

test('O1 a drain publishes everything, although parsers of the driver make objects of the values of all types but text', async () => {
  const types = [INT2, INT4, INT8, BOOL, BYTEA, NUMERIC, TIMESTAMPTZ]
  const before = types.map((type) => [type, parsers.getTypeParser(type)] as const)
  const broker = new Broker()
  try {
    for (const type of types) parsers.setTypeParser(type, (value: string) => ({ value }))
    const messages = Array.from({ length: 50 }, (_, n) => ({ topic: 'a', key: `key ${n}`, payload: n }))
    const ids = await publishTogether(root, messages)
    const subject = new RelayUnderTest(root, broker.publisher())
    expect(await subject.relay.drain()).toMatchObject({ published: 50 })
    expect(broker.ids().toSorted()).toEqual(ids.toSorted())
    expect(subject.heard('error')).toEqual([])
  } finally {
    for (const [type, parser] of before) parsers.setTypeParser(type, parser as never)
  }
  expect(await outbox.backlogSize()).toBe(0)
})
