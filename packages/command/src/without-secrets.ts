const URL_WITH_SECRET = /^([a-z][a-z0-9+.-]*:\/\/).*(@|password=|secret=|token=)/is

/**
 * Returns the URLs with secrets that are among the arguments of the command, even if an argument contains one by
 * mistake.
 */
function secretUrls(): readonly string[] {
  const words = process.argv.slice(2).flatMap((word) => [word, word.slice(word.indexOf('=') + 1)])
  const environment = [process.env['DATABASE_URL'], process.env['PUBLISHER_URL']]
  return [...words, ...environment].filter(
    (word): word is string => word !== undefined && URL_WITH_SECRET.test(word),
  )
}

/** Returns a word without the user and password of its URL, in time proportional to its length. */
function withoutUserInfo(word: string): string {
  const scheme = word.indexOf('://')
  const at = word.lastIndexOf('@')
  return scheme > 0 && at > scheme ? `${word.slice(0, scheme + 3)}…${word.slice(at)}` : word
}

/** Removes passwords and other secrets in URLs from text for a terminal or a log. */
export function withoutSecrets(text: string): string {
  let safe = text
  for (const url of secretUrls()) {
    const [, scheme] = URL_WITH_SECRET.exec(url) ?? []
    safe = safe.replaceAll(url, `${scheme}…`)
  }
  return safe
    .replaceAll(/[^\s'"]+/g, withoutUserInfo)
    .replaceAll(/\b(password|passwd|pwd|secret|token)=[^\s&'"]+/gi, '$1=…')
}
