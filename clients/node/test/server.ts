// A server process for the tests, on a data directory of its own.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

export const binary = process.env.FERRITE_BINARY

export class Server {
  private constructor(
    private process: ChildProcess,
    readonly address: string,
    private readonly dir: string,
    private readonly flags: string[],
  ) {}

  static async start(...flags: string[]): Promise<Server> {
    const dir = mkdtempSync(join(tmpdir(), 'ferrite-node-'))
    const [child, address] = await launch(dir, '127.0.0.1:0', flags)
    return new Server(child, address, dir, flags)
  }

  /** Ends the process without a word, as a crash would. */
  async kill(): Promise<void> {
    const gone = once(this.process, 'exit')
    this.process.kill('SIGKILL')
    await gone
  }

  /** Starts again on the same directory and port. */
  async restart(): Promise<void> {
    const [child] = await launch(this.dir, this.address, this.flags)
    this.process = child
  }

  async stop(): Promise<void> {
    if (this.process.exitCode === null && this.process.signalCode === null) await this.kill()
    rmSync(this.dir, { recursive: true, force: true })
  }
}

async function launch(dir: string, listen: string, flags: string[]): Promise<[ChildProcess, string]> {
  if (!binary) throw new Error('FERRITE_BINARY names no server binary')
  const child = spawn(binary, ['server', '--new', '--dir', dir, '--listen', listen, ...flags], { stdio: ['ignore', 'pipe', 'inherit'] })
  for await (const line of createInterface({ input: child.stdout! })) {
    const ready = /ready on (\S+)/.exec(line)
    if (ready) {
      child.stdout!.resume()
      return [child, ready[1]!]
    }
  }
  throw new Error('the server ended before it was ready')
}
