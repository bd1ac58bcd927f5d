import type { JsMsg } from '@nats-io/jetstream'
import type { Step } from '../support/subjects/steps.ts'
import { idOf } from './nats-under-test.ts'

/** The steps in stored messages, for `numbersByKey`. */
export function stepsIn(messages: readonly JsMsg[]): { id: string; step: Step }[] {
  return messages.map((message) => ({ id: idOf(message), step: message.json<Step>() }))
}
