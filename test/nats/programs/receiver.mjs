// A consumer that reports the id of the message that it receives, and those that are lost before.
import { natsSource } from '@txbox/nats'

const { BROKER_URL: servers, STREAM: stream, CONSUMER: consumer, ACK_WAIT_MS: ackWait } = process.env
process.once('disconnect', () => process.exit())
const source = natsSource({ servers, stream, consumer, declare: { ackWaitMs: Number(ackWait) } })
const opened = await source.open({
  prefetch: 10,
  failed: () => undefined,
  lost: ({ message }) => process.send({ lost: message.id }),
})
const [delivery] = await opened.receive(1, { signal: new AbortController().signal })
process.send({ received: delivery.message.id })
