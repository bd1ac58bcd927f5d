/**
 * Waits for `work`, but not longer than `ms`: then the result is that of `late`, which may throw. A later result
 * or error of `work` is ignored.
 *
 * @param how `ref: false` lets the process end although `work` has not.
 */
export function within<T, L>(
  work: Promise<T>,
  ms: number,
  late: (ms: number) => L,
  how?: { readonly ref: false },
): Promise<T | L> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      try {
        resolve(late(ms))
      } catch (error) {
        reject(error)
      }
    }, ms)
    if (how !== undefined) timer.unref()
    work.then(
      (result) => {
        clearTimeout(timer)
        resolve(result)
      },
      (error: unknown) => {
        clearTimeout(timer)
        reject(error)
      },
    )
  })
}
