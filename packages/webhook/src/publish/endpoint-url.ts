import type { Headers } from './wire-headers.ts'

/** The address of an endpoint, without user and password, which become a header. */
export interface EndpointUrl {
  readonly url: URL
  readonly credentials: Headers
}

/** Reads the URL of an endpoint; `undefined` if the text is no URL of http or https. */
export function endpointUrl(text: string): EndpointUrl | undefined {
  if (!URL.canParse(text)) return undefined
  const url = new URL(text)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return undefined
  url.hash = ''
  if (url.username === '' && url.password === '') return { url, credentials: {} }
  const user = decoded(url.username)
  const password = decoded(url.password)
  if (user === undefined || password === undefined) return undefined
  url.username = ''
  url.password = ''
  const basic = Buffer.from(`${user}:${password}`).toString('base64')
  return { url, credentials: { authorization: `Basic ${basic}` } }
}

/** The text without its percent-encoding; `undefined` if it is not encoded correctly. */
export function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
