import type { TlsOptions } from '@txbox/core/internal'

/** The settings of `amqps://`, with the meanings and defaults of Node's `tls.connect`. */
export type RabbitmqTlsOptions = TlsOptions
