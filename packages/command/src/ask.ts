import { createInterface } from 'node:readline/promises'

/** Returns whether a person can answer on a terminal. A script has no terminal. */
export function canAsk(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY
}

/** Asks a yes-or-no question. Ctrl-C, Ctrl-D and any other answer mean no. */
export async function agreed(question: string): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  try {
    const answer = await new Promise<string>((resolve, reject) => {
      terminal.once('close', () => resolve(''))
      terminal.question(`${question} [y/N] `).then(resolve, reject)
    })
    return /^y(es)?$/i.test(answer.trim())
  } finally {
    terminal.close()
  }
}
