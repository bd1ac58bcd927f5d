import { closeSync, existsSync, fstatSync, openSync, readSync } from 'node:fs'
import { isAnswered, type HttpAnswer, type HttpCall } from '../check/http-history.ts'
import type { AnsweredEntry, HttpLogEntry, SentEntry } from '../workers/http-protocol.ts'

/** The log of the HTTP client, of which each look reads what is new. */
export class HttpLog {
  readonly #file: string
  readonly #calls = new Map<string, HttpCall & { readonly answers: HttpAnswer[] }>()
  readonly #unanswered = new Map<string, HttpCall>()
  #offset = 0

  constructor(file: string) {
    this.#file = file
  }

  /** All calls, in the order in which the client began them. */
  get calls(): readonly HttpCall[] {
    return [...this.#calls.values()]
  }

  /** The calls without a 2xx. */
  get unanswered(): readonly HttpCall[] {
    return [...this.#unanswered.values()]
  }

  /** Reads the lines that have been written since the last time. The last one may not be whole yet. */
  read(): void {
    if (!existsSync(this.#file)) return
    const file = openSync(this.#file, 'r')
    try {
      const bytes = Buffer.alloc(fstatSync(file).size - this.#offset)
      const length = readSync(file, bytes, 0, bytes.length, this.#offset)
      const whole = bytes.subarray(0, bytes.subarray(0, length).lastIndexOf('\n') + 1)
      for (const line of whole.toString().split('\n')) {
        if (line !== '') this.#add(JSON.parse(line) as HttpLogEntry)
      }
      // A line that cannot be read fails again when the run ends.
      this.#offset += whole.length
    } finally {
      closeSync(file)
    }
  }

  #add(entry: HttpLogEntry): void {
    if (entry.what === 'sent') this.#sent(entry)
    else this.#answered(entry)
  }

  #sent({ call: name, path, key, ill, atMs }: SentEntry): void {
    const call = { call: name, path, key, ill, atMs, answers: [] }
    this.#calls.set(name, call)
    this.#unanswered.set(name, call)
  }

  #answered({ call: name, service, status, id, isReplayed, atMs }: AnsweredEntry): void {
    const call = this.#calls.get(name)
    if (call === undefined)
      throw new Error(`The log of the HTTP client has an answer without a request: ${name}.`)
    call.answers.push({ service, status, id, isReplayed, atMs })
    if (isAnswered(call)) this.#unanswered.delete(name)
  }
}
