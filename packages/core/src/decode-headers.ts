import type { BacklogMessage } from './ports/relay-store.ts'

/** Parses the headers of a stored message. A row with invalid headers must not prevent other rows from being read. */
export function decodeHeaders(text: string): Pick<BacklogMessage, 'headers' | 'undecodable'> {
  if (text === '{}') return { headers: {}, undecodable: undefined }
  try {
    return { headers: JSON.parse(text) as Record<string, string>, undecodable: undefined }
  } catch {
    return { headers: {}, undecodable: 'Its headers are not valid JSON.' }
  }
}
