/**
 * What was lost when a transaction failed: `'nothing'`: the transaction's connection still works, or no transaction of txbox has
 * failed with this error. `'connection'`: the transaction's connection has ended, and another connection reaches the server.
 * `'server'`: the transaction's connection has ended, and no other connection reaches the server either.
 */
export type Loss = 'nothing' | 'connection' | 'server'
