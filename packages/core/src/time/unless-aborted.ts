/**
 * Waits for `work`, but rejects with the signal's reason if the signal is aborted first. A later result or
 * error of `work` is ignored: `work` itself goes on. Without a signal, returns `work` itself.
 *
 * @param mayLeave is called when the signal is aborted, and returns whether to stop waiting for `work`. @default always
 * @throws the signal's reason, or the error of `work`.
 */
export function unlessAborted<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  mayLeave: () => boolean = () => true,
): Promise<T> {
  if (signal === undefined) return work
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      if (mayLeave()) reject(signal.reason)
    }
    if (signal.aborted) abort()
    else signal.addEventListener('abort', abort, { once: true })
    work.then(
      (result) => {
        signal.removeEventListener('abort', abort)
        resolve(result)
      },
      (error: unknown) => {
        signal.removeEventListener('abort', abort)
        reject(error)
      },
    )
  })
}
