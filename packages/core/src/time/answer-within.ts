import { DatabaseUnavailableError } from '../errors/errors.ts'

/**
 * Waits for the answer of a database for at most `ms`. The time includes the wait for a connection, for which a pool
 * may otherwise wait forever.
 *
 * @throws {DatabaseUnavailableError} when there is no answer within `ms`.
 */
export async function answerWithin<T>(ms: number, answer: Promise<T>, asked = 'The database'): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    // The error is created only when it is needed: capturing a stack trace is expensive.
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
