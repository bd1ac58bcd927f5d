// Words in comments and docs that readers may not understand, and the words that replace them.

const WRONG_WORDS = [
  { pattern: /\banew\b/i, instead: 'again' },
  { pattern: /\bmend(?:s|ed|ing)?\b/i, instead: 'fix' },
  { pattern: /\bdear(?:er|est)\b/i, instead: 'expensive' },
  { pattern: /\bunder way\b/i, instead: 'in flight' },
  { pattern: /\bfor ever\b/i, instead: 'forever' },
  { pattern: /\b(?:whoever|somebody|anybody)\b/i, instead: 'the noun' },
  { pattern: /\bin (?:the|its|his) hands\b/i, instead: 'in flight' },
  { pattern: /\bunless said\b/i, instead: 'by default' },
  { pattern: /\bof his own\b/i, instead: 'the noun' },
  { pattern: /\bof (?:ours|theirs)\b/i, instead: 'the noun' },
  { pattern: /^\s*(?:\/\*)?\*+ →/, instead: '@returns' },
]

/** Finds the wrong words in the comments of a program, or in the prose of a Markdown page. */
export function wrongWords(file, text) {
  const found = []
  let isCode = false
  for (const [index, line] of text.split('\n').entries()) {
    if (file.endsWith('.md')) {
      if (/^\s*```/.test(line)) isCode = !isCode
      if (isCode) continue
    } else if (!/^\s*(?:\/\*|\*|\/\/)|\s\/\/\s/.test(line)) continue
    const prose = file.endsWith('.md') ? line : line.replace(/^.*?(?=\/\*|\/\/|^\s*\*)/, '')
    for (const { pattern, instead } of WRONG_WORDS) {
      const word = pattern.exec(prose)?.[0]
      if (word !== undefined) found.push({ line: index + 1, word: word.trim(), instead })
    }
  }
  return found
}
