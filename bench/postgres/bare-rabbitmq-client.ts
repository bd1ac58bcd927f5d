import amqp from 'amqplib'

/** A message of the bare client: the same bytes and properties that the relay's publisher sends. */
export interface BareMessage {
  readonly id: string
  readonly key: string
  readonly type: string
  readonly payload: Buffer
}

/** Publishes with confirms as fast as the client can, with at most `inFlight` unconfirmed messages; no retries, no order. */
export async function publishBare(
  url: string,
  queue: string,
  messages: readonly BareMessage[],
  window: number,
): Promise<number> {
  const connection = await amqp.connect(url, { noDelay: true })
  const channel = await connection.createConfirmChannel()
  const finished = Promise.withResolvers<void>()
  let sent = 0
  let confirmed = 0
  const sendSome = (): void => {
    while (sent < messages.length && sent - confirmed < window) {
      const { id, key, type, payload } = messages[sent++]!
      const properties = {
        persistent: true,
        mandatory: true,
        messageId: id,
        type,
        contentType: 'application/json',
        timestamp: 1_700_000_000,
        headers: { 'txbox-key': key },
      }
      channel.publish('', queue, payload, properties, onConfirm)
    }
  }
  const onConfirm = (error: unknown): void => {
    if (error !== null && error !== undefined) finished.reject(error)
    else if (++confirmed === messages.length) finished.resolve()
    else sendSome()
  }
  connection.on('error', finished.reject)
  sendSome()
  await finished.promise
  await connection.close()
  return confirmed
}
