import type { Plant } from './plant.ts'

/** Known bugs of HTTP requests with an Idempotency-Key. */
export const HTTP_PLANTS: readonly Plant[] = [
  {
    name: 'response-after-commit',
    about: 'the response to an HTTP request is stored by a transaction of its own, after the one of the work',
    replacements: [
      {
        package: 'idempotency-key',
        file: 'request-runner.js',
        find: `await inbox.saveResult(session, claim, await storedText(given, this.settings.form));`,
        replace: '',
      },
      {
        package: 'idempotency-key',
        file: 'request-runner.js',
        find: `return { kind: 'handled', response };`,
        replace: `return { kind: 'handled', response, work: claim };`,
      },
      {
        package: 'idempotency-key',
        file: 'request-runner.js',
        find: `const found = this.#flights.get(keyed.claimed.stored) ? IN_FLIGHT_HERE : await attempt(keyed);`,
        replace: `const found = this.#flights.get(keyed.claimed.stored) ? IN_FLIGHT_HERE : await attempt(keyed);
            if (found.work !== undefined) {
                const text = await storedText(found.response, this.settings.form);
                await this.#ports.transact((tx, session) => this.#ports.inbox.saveResult(session, found.work, text), {});
            }`,
      },
    ],
    // A response that is missing is a 500 to the next request with its key.
    checks: ['http response', 'http answer', 'http standstill'],
    faults: ['kill', 'cut-after-bytes', 'backends-terminated', 'poison-consumer', 'stop-beyond-lease'],
  },
  {
    name: 'leased-response-dropped',
    about: 'the response to an HTTP request under a lease is not stored, and the lease is released',
    replacements: [
      {
        package: 'idempotency-key',
        file: 'leased-requests.js',
        find: `const isStored = await this.#leases.complete(owner, { retentionMs, result });`,
        replace: `const isStored = await this.#leases.release(owner);`,
      },
    ],
    checks: ['http charge'],
    faults: ['kill', 'cut-after-bytes', 'backends-terminated', 'poison-consumer', 'stop-beyond-lease'],
  },
]
