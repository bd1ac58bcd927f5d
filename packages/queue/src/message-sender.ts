import type { DeduplicationOptions } from '@txbox/core'
import type { DatabasePorts, Notify } from '@txbox/core/ports'
import { createSender, type FindTelemetry } from '@txbox/core/internal'
import type { SendingQueue } from './queue.ts'

export interface SenderSettings {
  readonly name: string
  readonly notify: Notify
  readonly deduplication: DeduplicationOptions | undefined
  readonly telemetry: FindTelemetry
}

/** The queue that only sends, in the caller's transactions. {@link SendingQueue} documents its method. */
export class MessageSender<P> implements SendingQueue<P> {
  readonly name: string
  readonly send: SendingQueue<P>['send']

  constructor(ports: DatabasePorts, { name, notify, deduplication, telemetry }: SenderSettings) {
    this.name = name
    this.send = createSender('createQueue', {
      ports,
      call: { where: 'send', topic: name, consumer: `@queue/${name}` },
      deduplication,
      telemetry,
      append: (session, messages) => ports.queueSender.send(session, messages, { notify }),
    }) as SendingQueue<P>['send']
  }
}
