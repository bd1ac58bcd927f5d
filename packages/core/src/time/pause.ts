/**
 * Resolves early when the signal is aborted.
 *
 * @param how `ref: false` lets the process end although the pause has not.
 */
export function pause(ms: number, signal?: AbortSignal, how?: { readonly ref: false }): Promise<void> {
  if (signal?.aborted === true) return Promise.resolve()
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    if (how !== undefined) timer.unref()
    signal?.addEventListener('abort', end)
  })
}
