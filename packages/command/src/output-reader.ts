/*
 * The program that reads the output may exit early, as `head` does. The command then ends quietly: this is not a failure,
 * and an error message would have no reader.
 */

let gone = false
let end = (): void => process.exit()

/** Whether the reader has gone away. */
export function readerIsGone(): boolean {
  return gone
}

/** The action to take when the reader goes away, instead of ending at once. */
export function whenReaderIsGone(stop: () => void): void {
  end = stop
}

/** Says whether an error of writing means that the reader has gone, and ends the command if so. */
export function endIfReaderIsGone(error: Error): boolean {
  if (Reflect.get(error, 'code') !== 'EPIPE') return false
  if (!gone) {
    gone = true
    end()
  }
  return true
}

export function watchOutput(): void {
  process.stderr.on('error', (error) => void endIfReaderIsGone(error))
  process.stdout.on('error', (error) => {
    if (endIfReaderIsGone(error)) return
    process.stderr.write(`txbox: standard output takes no more: ${error.message}\n`)
    process.exitCode = 1
    end()
  })
}
