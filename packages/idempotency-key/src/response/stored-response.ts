import { isUtf8 } from 'node:buffer'
import { InvalidMessageError } from '@txbox/core'
import { propertyOf } from '@txbox/core/internal'
import type { HttpResponse } from './http-response.ts'
import type { Seal } from './seal.ts'
import { refused, type CheckedResponse } from './response-checks.ts'

export interface StoredForm {
  readonly maxBytes: number
  /** Names of headers in lower case. */
  readonly replayed: ReadonlySet<string>
  readonly seal: Seal | undefined
}

export const REPLAYED_HEADERS: readonly string[] = [
  'content-type',
  'content-language',
  'content-location',
  'content-encoding',
  'location',
  'etag',
  'link',
  'cache-control',
]

/** Headers that belong to one message, one connection or one client. */
const NEVER_REPLAYED = new Set([
  'set-cookie',
  'date',
  'connection',
  'keep-alive',
  'transfer-encoding',
  'content-length',
  'trailer',
  'upgrade',
])

export function mayBeReplayed(name: string): boolean {
  const lower = name.toLowerCase()
  return !NEVER_REPLAYED.has(lower) && !lower.startsWith('proxy-')
}

/**
 * Returns the text that is stored for a response.
 *
 * @throws {InvalidMessageError} when the option `seal` returns no bytes.
 */
export async function storedText(response: CheckedResponse, form: StoredForm): Promise<string> {
  const { status, headers, body } = response
  const kept = Object.fromEntries(Object.entries(headers).filter(([name]) => form.replayed.has(name)))
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  const [b, e] = isUtf8(bytes) ? [bytes.toString(), 'utf8'] : [bytes.toString('base64'), 'base64']
  const text = JSON.stringify({ s: status, h: kept, b, e })
  if (form.seal === undefined) return text
  const sealed: unknown = await form.seal.seal(Buffer.from(text))
  if (!(sealed instanceof Uint8Array)) throw refused("the option 'seal' returned no bytes")
  return JSON.stringify({ x: Buffer.from(sealed).toString('base64') })
}

/**
 * Reads a stored response.
 *
 * @throws {InvalidMessageError} when the text is no stored response, or cannot be opened.
 */
export async function storedResponse(
  text: string | undefined,
  seal: Seal | undefined,
): Promise<HttpResponse> {
  if (text === undefined) throw unreadable('it is missing')
  const outer = parsed(text)
  const sealed = propertyOf(outer, 'x')
  const inner = typeof sealed === 'string' ? parsed(await opened(sealed, seal)) : outer
  const [status, headers, body, encoding] = ['s', 'h', 'b', 'e'].map((name) => propertyOf(inner, name))
  if (
    typeof status !== 'number' ||
    typeof headers !== 'object' ||
    headers === null ||
    typeof body !== 'string'
  ) {
    throw unreadable('it has another form')
  }
  return {
    status,
    headers: {
      'cache-control': 'no-store',
      ...(headers as Record<string, string | readonly string[]>),
      'idempotent-replayed': 'true',
    },
    body: Buffer.from(body, encoding === 'base64' ? 'base64' : 'utf8'),
  }
}

async function opened(sealed: string, seal: Seal | undefined): Promise<string> {
  if (seal === undefined) throw unreadable("it is sealed, and the option 'seal' is not set")
  try {
    return Buffer.from(await seal.open(Buffer.from(sealed, 'base64'))).toString()
  } catch (cause) {
    throw unreadable("the option 'seal' could not open it", cause)
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    throw unreadable('it is not JSON')
  }
}

function unreadable(why: string, cause?: unknown): InvalidMessageError {
  return new InvalidMessageError(
    `A stored response cannot be replayed: ${why}. The handler did not run again.`,
    {
      cause,
    },
  )
}
