import { DatabaseUnavailableError } from './errors.ts'

/**
 * The answer of a database, or an error once it has taken longer than this: also while no connection is to be had, for
 * which a pool may wait for ever.
 *
 * @throws {DatabaseUnavailableError} when there is no answer within `ms`.
 */
export async function answerWithin<T>(ms: number, answer: Promise<T>, asked = 'The database'): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    // Made when it is needed: the trace of an error is dear.
    const giveUp = (): void =>
      reject(new DatabaseUnavailableError(`${asked} has not answered within ${ms} ms.`))
    timer = setTimeout(giveUp, ms)
  })
  answer.catch(() => undefined)
  try {
    return await Promise.race([answer, late])
  } finally {
    clearTimeout(timer)
  }
}
