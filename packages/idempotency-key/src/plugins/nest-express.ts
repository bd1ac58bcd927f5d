import type { ServerResponse } from 'node:http'
import type { Bridge, HeldHandler } from './bridge.ts'
import { HeldResponse } from './held-response.ts'

/** Holds what NestJS writes over Express, until the bridge has its answer. */
export function holdResponse(response: ServerResponse, bridge: Bridge, maxBytes: number): HeldHandler {
  const held = new HeldResponse(response)
  const handler = Promise.withResolvers<void>()
  const begin = async (): Promise<void> => {
    const written = await held.begin(bridge.handled?.key === undefined ? Infinity : maxBytes)
    // A handler may end its response by itself, and go on with its work in the transaction.
    await handler.promise
    bridge.respond(written)
  }
  let ended = begin()
  void bridge.answered.then(async (answer) => {
    // The framework makes a response of an error of the handler.
    if (answer === undefined) await ended
    held.send(answer)
  })
  return {
    end: () => handler.resolve(),
    fail() {
      handler.resolve()
      ended = begin()
    },
  }
}
