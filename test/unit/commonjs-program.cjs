// Loaded by a test as a program of its own: what a CommonJS service does.
const assert = require('node:assert')
const { createInbox, isTxboxError } = require('@txbox/inbox')
const { createOutbox } = require('@txbox/outbox')
const { postgres } = require('@txbox/postgres')
const { publishEach } = require('@txbox/relay')
const { rabbitmqPublisher } = require('@txbox/rabbitmq')

const database = postgres()
assert.equal(typeof createInbox({ database, consumer: 'seats' }).process, 'function')
assert.equal(typeof createOutbox({ database }).publish, 'function')
assert.equal(typeof publishEach(() => undefined).publish, 'function')
assert.equal(typeof rabbitmqPublisher, 'function')
try {
  createInbox({ database })
} catch (error) {
  assert.ok(isTxboxError(error))
  console.log('loaded')
}
