/** A module that the command loads only when an address asks for it. */
export type DriverName = 'pg' | 'mysql2' | '@txbox/rabbitmq'

/** The differences between the packages that contain the command. */
export interface Installation {
  /** How a user calls the command, for help texts and errors. */
  readonly calledAs: string
  /**
   * `@txbox/cli` imports its own drivers. `txbox` looks for drivers in the user's project, so that users need no drivers
   * for databases that they do not have.
   */
  readonly drivers: Readonly<Record<DriverName, () => Promise<unknown>>>
}
