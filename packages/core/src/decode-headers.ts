import type { BacklogMessage } from './ports/relay-store.ts'

/** Parses the headers of a stored message. A row with invalid headers must not prevent other rows from being read. */
export function decodeHeaders(text: string): Pick<BacklogMessage, 'headers' | 'undecodable'> {
  if (text === '{}') return { headers: {}, undecodable: undefined }
  let headers: unknown
  try {
    headers = JSON.parse(text)
  } catch {
    return { headers: {}, undecodable: 'Its headers are not valid JSON.' }
  }
  if (isHeaders(headers)) return { headers, undecodable: undefined }
  return { headers: {}, undecodable: 'Its headers are JSON, but no object of texts.' }
}

function isHeaders(value: unknown): value is Record<string, string> {
  return (
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    Object.values(value).every((text) => typeof text === 'string')
  )
}
