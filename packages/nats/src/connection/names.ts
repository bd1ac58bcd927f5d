/** The names that JetStream gives to streams and consumers: no space, dot, wildcard, slash or control character. */
export const STREAM_NAME = /^[^\s.*>/\\\p{Cc}]+$/u
