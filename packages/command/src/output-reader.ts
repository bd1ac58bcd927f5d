/*
 * The program that reads the output may exit early, as `head` does. The command then ends without a message: this is
 * not a failure.
 */

let readerGone = false
let end = (): void => process.exit()

export function readerIsGone(): boolean {
  return readerGone
}

/** Sets the action to take when the reader of the output ends, instead of exiting at once. */
export function whenReaderIsGone(stop: () => void): void {
  end = stop
}

/**
 * Ends the command if a write error means that the reader of the output has ended.
 *
 * @returns whether the error means that.
 */
export function endIfReaderIsGone(error: Error): boolean {
  if (Reflect.get(error, 'code') !== 'EPIPE') return false
  if (!readerGone) {
    readerGone = true
    end()
  }
  return true
}

export function watchOutput(): void {
  process.stderr.on('error', (error) => void endIfReaderIsGone(error))
  process.stdout.on('error', (error) => {
    if (endIfReaderIsGone(error)) return
    process.stderr.write(`txbox: cannot write to standard output: ${error.message}\n`)
    process.exitCode = 1
    end()
  })
}
