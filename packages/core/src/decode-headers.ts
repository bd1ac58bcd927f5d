import type { BacklogMessage } from './ports/relay-store.ts'

/** The headers of a stored message. A row that somebody else wrote must not keep the others from being read. */
export function decodeHeaders(text: string): Pick<BacklogMessage, 'headers' | 'undecodable'> {
  if (text === '{}') return { headers: {}, undecodable: undefined }
  try {
    return { headers: JSON.parse(text) as Record<string, string>, undecodable: undefined }
  } catch {
    return { headers: {}, undecodable: 'Its headers are no JSON.' }
  }
}
