import { Pool } from 'pg'
import { expect, test } from 'vitest'
import { InvalidOptionError } from '@txbox/core'
import { connectedPortsOf } from '@txbox/core/internal'
import { postgres } from '@txbox/postgres'
import { createQueue, queueSource, type Queue } from '@txbox/queue'

const database = postgres({ db: new Pool() })

test('a queue of another installed copy of the package is a source', async () => {
  // A second copy of the module, as a second installation has it.
  const path = import.meta.resolve('@txbox/queue').replace(/index\.js$/, 'stored-queue.js')
  const { StoredQueue } = (await import(`${path}?copy`)) as {
    StoredQueue: new (...parts: unknown[]) => Queue
  }
  const settings = { name: 'mail', notify: false, visibilityTimeoutMs: 30_000, maxReceives: 10 }
  const foreign = new StoredQueue(connectedPortsOf('test', database), settings)
  expect(foreign).not.toBeInstanceOf(createQueue({ database, name: 'mail' }).constructor)
  expect(queueSource(foreign)).toMatchObject({
    name: 'queue mail',
    traits: { leaseMs: 30_000, maxDeliveries: 10 },
  })
})

test('nothing else is a source', () => {
  const sending = createQueue({ database: postgres(), name: 'mail' })
  const alike = { name: 'mail', settings: {}, receive: () => [], ready: () => undefined }
  for (const other of [sending, alike, null, 'mail', database]) {
    expect(() => queueSource(other as never)).toThrow(InvalidOptionError)
  }
})
