// A program in CommonJS: Node ≥ 22.12 loads ES modules by require.
import core = require('@txbox/core')
import inbox = require('@txbox/inbox')
import outbox = require('@txbox/outbox')
import postgres = require('@txbox/postgres')
import relay = require('@txbox/relay')

const database: core.Database = postgres.postgres({ schema: 'messaging' })
const seats: inbox.DetachedInbox<inbox.AnyMessage> = inbox.createInbox({ database, consumer: 'seats' })
const events: outbox.Outbox = outbox.createOutbox({ database })
const publisher: relay.Publisher = relay.publishEach(() => undefined)
export = { seats, events, publisher }
