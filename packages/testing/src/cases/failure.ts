import assert from 'node:assert/strict'

/** The error of a promise that must reject. */
export async function failure(promise: Promise<unknown>): Promise<unknown> {
  const outcome = await promise.then(
    () => ({ rejected: false, error: undefined }),
    (error: unknown) => ({ rejected: true, error }),
  )
  assert.ok(outcome.rejected, 'the call resolved, but had to reject')
  return outcome.error
}
