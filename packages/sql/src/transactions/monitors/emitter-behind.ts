/** The part of an emitter that is needed to find the emitter behind a proxy. */
export interface ListeningHandle {
  on(event: string, listener: (this: unknown, value?: unknown) => void): unknown
  off(event: string, listener: (this: unknown, value?: unknown) => void): unknown
}

/**
 * Returns the emitter behind a handle, which may be a proxy: Node.js reports every new listener to the real emitter.
 */
export function emitterBehind(handle: ListeningHandle): unknown {
  const found: unknown[] = []
  const find = function (this: unknown): void {
    found.push(this)
  }
  const ignore = (): void => undefined
  handle.on('newListener', find)
  handle.on('txbox', ignore)
  handle.off('txbox', ignore)
  handle.off('newListener', find)
  return found[0]
}
