export interface Container {
  /** host:port, as this process reaches the container. */
  readonly address: string
  readonly stop: () => Promise<void>
}

/** Starts a container, if a Docker engine answers. Testcontainers removes it also when this process is killed. */
export async function startContainer(options: {
  readonly image: string
  readonly port: number
  /** The port of this machine that leads to `port`. Default: any free one, which is known only when the container runs. */
  readonly hostPort?: number
  readonly environment?: Record<string, string>
  readonly command?: string[]
  readonly ready: { readonly log: RegExp; readonly times: number }
}): Promise<Container | undefined> {
  const { GenericContainer, Wait, getContainerRuntimeClient } = await import('testcontainers')
  try {
    await getContainerRuntimeClient()
  } catch {
    return undefined
  }
  const container = await new GenericContainer(options.image)
    .withEnvironment(options.environment ?? {})
    .withCommand(options.command ?? [])
    .withExposedPorts(
      options.hostPort === undefined ? options.port : { container: options.port, host: options.hostPort },
    )
    .withWaitStrategy(Wait.forLogMessage(options.ready.log, options.ready.times))
    .start()
  return {
    address: `${container.getHost()}:${container.getMappedPort(options.port)}`,
    stop: async () => {
      await container.stop()
    },
  }
}
