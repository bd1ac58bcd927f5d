/** What the command loads only when an address asks for it. */
export type DriverName = 'pg' | 'mysql2' | '@txbox/rabbitmq'

/** What differs between the packages that bring the command along. */
export interface Installation {
  /** How a user calls the command, as help and errors write it. */
  readonly calledAs: string
  /**
   * Loads a driver. `@txbox/cli` imports its own; `txbox` looks in the user's project, so that nobody installs drivers
   * for databases that they do not have.
   */
  readonly drivers: Readonly<Record<DriverName, () => Promise<unknown>>>
}
