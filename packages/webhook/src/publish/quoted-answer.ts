import { oneLine } from '@txbox/core/internal'
import { decoded } from './endpoint-url.ts'

/** A shorter text is a word of any answer rather than a secret. */
const LEAST_CHARACTERS = 4

/**
 * The beginning of an answer in one line, for the text of an error, which gets into logs and dead letters. What an endpoint may quote of
 * the request is replaced by `***`: the path and the query of the URL and their parts, as they were sent and decoded, and credentials.
 *
 * @param headers values of headers that are not shown, such as that of `authorization`.
 */
export function quotedAnswer(text: string, url: URL, headers: readonly string[]): string {
  const secrets = [...secretsOfUrl(url), ...headers.flatMap(secretsOfHeader)]
    .filter((secret) => secret.length >= LEAST_CHARACTERS)
    // The whole comes before its parts.
    .toSorted((a, b) => b.length - a.length)
  return oneLine(secrets.reduce((left, secret) => left.replaceAll(secret, '***'), text))
}

/** Customers of many systems prove who they are by the URL alone. */
function secretsOfUrl({ pathname, search }: URL): string[] {
  const parts = `${pathname}${search}`.split(/[/?&=;]/)
  const readable = parts.map((part) => decoded(part.replaceAll('+', ' ')) ?? part)
  return [`${pathname}${search}`, pathname, search.slice(1), ...parts, ...readable]
}

/** The value and its words; of Basic authentication user and password as well. */
function secretsOfHeader(value: string): string[] {
  const [scheme, ...words] = value.split(' ')
  if (scheme?.toLowerCase() !== 'basic') return [value, ...value.split(' ')]
  const pair = Buffer.from(words.join(''), 'base64').toString()
  const [user = '', ...password] = pair.split(':')
  return [value, ...words, pair, user, password.join(':')]
}
