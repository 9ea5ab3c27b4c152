// The client: connections to all nodes, where a call goes, how many may be on their way, and what
// is counted. Promises that each call ends exactly once, and that `close` leaves nothing behind.

import { EventEmitter } from 'node:events'
import type { ConnectionOptions as TlsOptions } from 'node:tls'
import { PendingCall, type Ledger } from './call.js'
import { Connection } from './connection.js'
import { CallError, ConnectError, FerriteError, Status, ValueError } from './errors.js'
import { Table, type Response, type Row } from './reader.js'
import { Result } from './result.js'
import { Recorder, type ConnectionStatistics, type Statistics } from './statistics.js'
import { hostsOf, Topology } from './topology.js'
import { Type, typed, type BigintMode, type DecimalMode, type Parameter, type ValueModes } from './types.js'
import { encodeName, type Destination } from './writer.js'

export interface ClientOptions {
  /**
   * `host`, `host:port` or `[v6]:port`, one or several; the port is 21212 unless given. Default:
   * localhost.
   */
  servers?: string | readonly string[]
  user?: string
  password?: string
  /** TLS for all connections: true, or what node:tls takes (ca, cert, key, servername...). */
  tls?: boolean | TlsOptions
  /** Calls without an answer at any time, all connections together. Default 3000. */
  maxOutstanding?: number
  /**
   * When that many are out: 'block' lets calls wait here in order (default), 'reject' refuses them
   * at once.
   */
  whenFull?: 'block' | 'reject'
  /** Calls that may wait here; more are refused. Default 100000. */
  maxQueued?: number
  /**
   * Milliseconds after which a call without an answer ends as unknown; 0: never. Default 120000.
   */
  timeoutMs?: number
  /** Milliseconds for connecting and logging in. Default 10000. */
  connectTimeoutMs?: number
  /** Connections to each node. Default 1. */
  connectionsPerServer?: number
  /** Send calls to the node that leads their partition. Default true. */
  affinity?: boolean
  /** Connect to the cluster's other nodes too. Default true. */
  discover?: boolean
  /** Pause before connecting again: exponential backoff with jitter. Default 50 to 5000 ms. */
  reconnect?: { minMs?: number; maxMs?: number }
  bigint?: BigintMode
  decimal?: DecimalMode
}

export interface CallOptions {
  timeoutMs?: number
  signal?: AbortSignal
}

export interface ClientEvents {
  connect: [address: string]
  disconnect: [address: string, reason: Error]
  /**
   * A node that cannot be reached or refuses the login; the client goes on trying unless trying
   * cannot help.
   */
  'connect-failed': [error: ConnectError]
  late: [procedure: string]
  topology: []
  /** All room is taken (true), or there is room again (false). */
  backpressure: [full: boolean]
}

interface Node {
  host: string
  port: number
  address: string
  /** Not named by the caller. */
  found: boolean
  connection: Connection | null
  /** The host that it was connected to the last time. */
  hostId: number | null
  attempts: number
  reconnects: number
  timer: NodeJS.Timeout | null
}

/**
 * Refused calls ask who leads no more often than this: while a leader is elected everybody asks.
 */
const ASK_PAUSE_MS = 100

export class Client extends EventEmitter<ClientEvents> {
  private readonly nodes: Node[] = []
  private live: Connection[] = []
  private byHost = new Map<number, Connection[]>()
  private next = 0
  private outstandingCount = 0
  private queue: PendingCall[] = []
  private queueHead = 0
  private full = false
  private closed = false
  private drained: (() => void) | null = null
  private readonly topology = new Topology()
  /** A connection whose answer was that its node does not lead, until another was asked. */
  private doubted: Connection | null = null
  private askTimer: NodeJS.Timeout | null = null
  private askNext = 0
  private total = new Recorder()
  private interval = new Recorder()
  private readonly names = new Map<string, Buffer>()
  private readonly modes: ValueModes
  private readonly settings: Required<Omit<ClientOptions, 'tls' | 'reconnect' | 'servers' | 'bigint' | 'decimal'>> & {
    tls: boolean | TlsOptions | undefined
    minMs: number
    maxMs: number
  }

  private constructor(options: ClientOptions) {
    super()
    this.modes = { bigint: options.bigint ?? 'bigint', decimal: options.decimal ?? 'string' }
    this.settings = {
      user: options.user ?? '',
      password: options.password ?? '',
      maxOutstanding: options.maxOutstanding ?? 3000,
      whenFull: options.whenFull ?? 'block',
      maxQueued: options.maxQueued ?? 100_000,
      timeoutMs: options.timeoutMs ?? 120_000,
      connectTimeoutMs: options.connectTimeoutMs ?? 10_000,
      connectionsPerServer: options.connectionsPerServer ?? 1,
      affinity: options.affinity ?? true,
      discover: options.discover ?? true,
      tls: options.tls,
      minMs: options.reconnect?.minMs ?? 50,
      maxMs: options.reconnect?.maxMs ?? 5000,
    }
    if (!(this.settings.maxOutstanding >= 1)) throw new FerriteError('maxOutstanding must be at least 1')
    const servers = typeof options.servers === 'string' ? options.servers.split(',') : (options.servers ?? ['localhost'])
    for (const server of servers) this.addNode(parseAddress(server), false)
    if (this.nodes.length === 0) throw new FerriteError('no server was named')
  }

  /**
   * Connects to the servers named; one that answers is enough. The others are tried again and
   * again.
   */
  static async connect(options: ClientOptions | string = {}): Promise<Client> {
    const client = new Client(typeof options === 'string' ? { servers: options } : options)
    const attempts = await Promise.allSettled(client.nodes.map((node) => client.open(node)))
    if (client.live.length === 0) {
      await client.close({ drain: false })
      const first = attempts.find((attempt) => attempt.status === 'rejected')?.reason
      const code = first instanceof FerriteError ? first.code : '08001'
      const reasons = attempts.map((attempt) => (attempt.status === 'rejected' ? (attempt.reason as Error).message : ''))
      throw new ConnectError(`no server could be reached: ${reasons.join('; ')}`, code, client.nodes.map((node) => node.address).join(','))
    }
    return client
  }

  /**
   * Calls a procedure. Ends with its result, or with a `CallError` that says whether the
   * transaction may have taken place.
   */
  call<R = Row>(procedure: string, parameters: readonly Parameter[] = [], options?: CallOptions): Promise<Result<R>> {
    return this.submit(procedure, parameters, options, undefined)
  }

  /** A procedure as a function, with types for its parameters and rows. */
  procedure<P extends readonly Parameter[] = Parameter[], R = Row>(name: string, options?: CallOptions): (...parameters: P) => Promise<Result<R>> {
    return (...parameters: P) => this.submit<R>(name, parameters, options, undefined)
  }

  /** Runs SQL; `?` in it are parameters. The rows of its (last) result. */
  async query<R = Row>(sql: string, parameters: readonly Parameter[] = [], options?: CallOptions): Promise<R[]> {
    if (!Array.isArray(parameters)) throw new ValueError("the parameters of a query must be an array, such as [1n, 'a']")
    const result = await this.call<R>('@AdHoc', [sql, ...parameters], options)
    return result.tables.at(-1)?.rows() ?? []
  }

  /**
   * Calls a procedure for each set of parameters with `concurrency` calls on their way; results
   * come in order.
   */
  async *callEach<R = Row>(
    procedure: string,
    sets: Iterable<readonly Parameter[]> | AsyncIterable<readonly Parameter[]>,
    options: CallOptions & { concurrency?: number } = {},
  ): AsyncIterableIterator<Result<R>> {
    const window: Promise<Result<R>>[] = []
    const concurrency = Math.max(1, options.concurrency ?? 100)
    try {
      for await (const parameters of sets) {
        if (window.length >= concurrency) yield await window.shift()!
        const result = this.call<R>(procedure, parameters, options)
        result.catch(() => {}) // It is awaited in its turn; until then it must not count as unhandled.
        window.push(result)
      }
      while (window.length > 0) yield await window.shift()!
    } finally {
      await Promise.allSettled(window)
    }
  }

  /**
   * Calls a single-partition procedure once on every partition. Its first parameter is the
   * partitioning one and is put in here.
   */
  async callAllPartitions<R = Row>(procedure: string, parameters: readonly Parameter[] = [], options?: CallOptions): Promise<{ partition: number; result: Result<R> }[]> {
    const keys = await this.call('@GetPartitionKeys', ['INTEGER'], options)
    const legs = Array.from(keys.table.arrays(), ([partition, key]) => ({ partition: partition as number, key: key as number }))
    return Promise.all(
      legs.map(async ({ partition, key }) => ({
        partition,
        result: await this.submit<R>(procedure, [typed(Type.INTEGER, key), ...parameters], options, { partition }),
      })),
    )
  }

  async ping(): Promise<void> {
    await this.call('@Ping')
  }

  /**
   * Resolves as soon as a call would be sent at once: for producers that must not outrun the
   * server.
   */
  async ready(): Promise<void> {
    while (this.full && !this.closed) await new Promise<void>((resolve) => this.once('backpressure', () => resolve()))
  }

  /** Calls without an answer, sent or waiting. */
  get outstanding(): number {
    return this.outstandingCount + this.queued
  }
  private get queued(): number {
    return this.queue.length - this.queueHead
  }
  get connected(): boolean {
    return this.live.length > 0
  }

  /** Everything since the client was made; with `interval`, since the last call with it. */
  statistics(options: { interval?: boolean } = {}): Statistics {
    const connections: ConnectionStatistics[] = this.nodes.map((node) => ({
      address: node.address,
      connected: node.connection?.open ?? false,
      hostId: node.hostId,
      outstanding: node.connection?.outstanding ?? 0,
      bytesSent: node.connection?.bytesSent ?? 0,
      bytesReceived: node.connection?.bytesReceived ?? 0,
      reconnects: node.reconnects,
    }))
    const recorder = options.interval ? this.interval : this.total
    const report = recorder.report(connections, this.outstanding, this.queued)
    if (options.interval) this.interval = new Recorder()
    return report
  }

  /**
   * No new calls; waits for the answers that are missing (unless drain is false, or until
   * timeoutMs), then closes.
   */
  async close(options: { drain?: boolean; timeoutMs?: number } = {}): Promise<void> {
    const already = this.closed
    this.closed = true
    if (!already && (options.drain ?? true) && this.outstanding > 0 && this.live.length > 0) {
      await new Promise<void>((resolve) => {
        this.drained = resolve
        if (options.timeoutMs !== undefined) setTimeout(resolve, options.timeoutMs).unref()
      })
    }
    if (this.askTimer) clearTimeout(this.askTimer)
    for (const node of [...this.nodes]) {
      if (node.timer) clearTimeout(node.timer)
      node.timer = null
      node.connection?.close('the client was closed')
    }
    const waiting = this.queue.slice(this.queueHead)
    this.queue = []
    this.queueHead = 0
    for (const call of waiting) {
      call.ended(new CallError('the client was closed before the call was sent', '08003', Status.CLIENT_ERROR_NOT_SENT, 'not-sent', call.procedure))
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  // --- calls ---

  private submit<R>(procedure: string, parameters: readonly Parameter[], options: CallOptions | undefined, destination: Destination | undefined): Promise<Result<R>> {
    return new Promise<Result<R>>((resolve, reject) => {
      const refuse = (why: string, code: string, status: number = Status.CLIENT_ERROR_NOT_SENT): void =>
        reject(new CallError(why, code, status, 'not-sent', procedure))
      if (this.closed) return refuse('the client is closed', '08003')
      if (!Array.isArray(parameters)) throw new ValueError(`the parameters of ${procedure} must be an array, such as [1n, 'a']`)
      const signal = options?.signal
      if (signal?.aborted) return refuse('the call was given up before it was sent', '57014')
      let name = this.names.get(procedure)
      if (!name) {
        name = encodeName(procedure)
        this.names.set(procedure, name)
      }
      const call = new PendingCall(this.ledger, procedure, name, parameters, destination, options?.timeoutMs ?? this.settings.timeoutMs, resolve as (result: Result) => void, reject)
      if (this.full || this.live.length === 0) {
        if (this.settings.whenFull === 'reject' && this.live.length > 0) return refuse(`${this.settings.maxOutstanding} calls are outstanding already`, '54000')
        if (this.queued >= this.settings.maxQueued) return refuse(`${this.settings.maxQueued} calls are waiting already`, '54000')
        call.wait()
        this.queue.push(call)
      } else this.dispatch(call)
      if (signal) call.listen(signal)
    })
  }

  private dispatch(call: PendingCall): void {
    const connection = this.choose(call)
    try {
      connection.send(call)
    } catch (error) {
      return call.refused(error as Error)
    }
    call.connection = connection
    this.outstandingCount += 1
    if (this.outstandingCount >= this.settings.maxOutstanding && !this.full) {
      this.full = true
      this.tell('backpressure', true)
    }
  }

  private choose(call: PendingCall): Connection {
    const live = this.live
    if (live.length === 1) return live[0]!
    let host: number | null = null
    if (this.settings.affinity) host = call.destination ? this.topology.leader(call.destination.partition) : this.topology.host(call.procedure, call.parameters)
    const local = host === null ? undefined : this.byHost.get(host)
    const among = local && local.length > 0 ? local : live
    this.next = (this.next + 1) % 1048576
    return among[this.next % among.length]!
  }

  /** What a call tells its client. */
  private readonly ledger: Ledger = {
    finished: () => {
      this.outstandingCount -= 1
      this.pump()
    },
    again: (call) => {
      if (this.closed || this.live.length === 0) return false
      this.outstandingCount -= 1
      this.dispatch(call)
      return true
    },
    count: (procedure, what, latencyUs) => {
      for (const recorder of [this.total, this.interval]) {
        const counts = recorder.of(procedure)
        counts[what] += 1
        if (latencyUs !== undefined) counts.latency.record(latencyUs)
      }
      if (what === 'late') this.tell('late', procedure)
    },
  }

  private pump(): void {
    while (this.live.length > 0 && this.outstandingCount < this.settings.maxOutstanding && this.queueHead < this.queue.length) {
      const call = this.queue[this.queueHead]!
      this.queueHead += 1
      if (!call.over) this.dispatch(call)
      if (this.queueHead > 1024 && this.queueHead * 2 > this.queue.length) {
        this.queue = this.queue.slice(this.queueHead)
        this.queueHead = 0
      }
    }
    if (this.full && this.outstandingCount < this.settings.maxOutstanding && this.queued === 0) {
      this.full = false
      this.tell('backpressure', false)
    }
    if (this.drained && this.outstanding === 0) this.drained()
  }

  // --- connections ---

  private addNode(address: { host: string; port: number }, found: boolean): Node[] {
    const added: Node[] = []
    for (let index = 0; index < this.settings.connectionsPerServer; index++) {
      const node: Node = {
        host: address.host,
        port: address.port,
        address: `${address.host}:${address.port}`,
        found,
        connection: null,
        hostId: null,
        attempts: 0,
        reconnects: 0,
        timer: null,
      }
      this.nodes.push(node)
      added.push(node)
    }
    return added
  }

  private async open(node: Node): Promise<void> {
    const connection = new Connection(
      {
        host: node.host,
        port: node.port,
        user: this.settings.user,
        password: this.settings.password,
        tls: this.settings.tls,
        connectTimeoutMs: this.settings.connectTimeoutMs,
        modes: this.modes,
      },
      {
        closed: (reason) => this.lost(node, connection, reason),
        failed: (status) => this.refused(connection, status),
        pushed: (kind, response) => this.learn(connection, kind, response),
      },
    )
    try {
      const login = await connection.connect()
      if (this.closed) {
        connection.close('the client was closed')
        return
      }
      this.refuseStranger(node, connection)
      if (!this.isFirstOf(node, login.hostId)) {
        connection.close('a second address of a node')
        return
      }
      node.connection = connection
      node.hostId = login.hostId
      node.attempts = 0
      this.regroup()
      this.tell('connect', node.address)
      this.pump()
      if (this.settings.affinity || this.settings.discover) this.subscribe(connection)
    } catch (error) {
      const reason = error instanceof ConnectError ? error : new ConnectError((error as Error).message, '08001', node.address)
      if (this.listenerCount('connect-failed') > 0) this.tell('connect-failed', reason)
      if (!reason.permanent) this.again(node)
      throw reason
    }
  }

  /** Two nodes that do not belong to one cluster must not answer the calls of one client. */
  private refuseStranger(node: Node, connection: Connection): void {
    const login = connection.login
    for (const other of this.live) {
      // What is at the same address may just have been founded anew.
      if (other.address === connection.address) continue
      if (login && other.login && (other.login.clusterStart !== login.clusterStart || other.login.leaderAddress !== login.leaderAddress)) {
        connection.close('another cluster')
        throw new ConnectError(`${node.address} belongs to another cluster than ${other.address}`, '08004', node.address)
      }
    }
  }

  /**
   * False if the host of a node that was found is connected under another address. The address that
   * the caller has named stays, unless the other has calls.
   */
  private isFirstOf(node: Node, hostId: number): boolean {
    for (const other of [...this.nodes]) {
      const double = other.connection?.open && other.hostId === hostId && other.address !== node.address
      if (!double) continue
      if (node.found) {
        this.forget(node)
        return false
      }
      if (other.found && other.connection!.outstanding === 0) this.forget(other)
    }
    return this.nodes.includes(node)
  }

  private forget(node: Node): void {
    this.nodes.splice(this.nodes.indexOf(node), 1)
    if (node.timer) clearTimeout(node.timer)
    node.timer = null
    node.connection?.close('a second address of a node')
  }

  private lost(node: Node, connection: Connection, reason: FerriteError): void {
    if (node.connection !== connection) return
    node.connection = null
    this.regroup()
    if (this.closed) {
      // What still waits has no connection to go to.
      if (this.live.length === 0) this.drained?.()
      return
    }
    this.tell('disconnect', node.address, reason)
    node.reconnects += 1
    this.again(node)
  }

  private again(node: Node): void {
    if (this.closed || node.timer || !this.nodes.includes(node)) return
    const longest = Math.min(this.settings.maxMs, this.settings.minMs * 2 ** Math.min(node.attempts, 16))
    node.attempts += 1
    node.timer = setTimeout(() => {
      node.timer = null
      if (!this.closed) this.open(node).catch(() => {})
    }, longest * (0.5 + Math.random() / 2))
  }

  private regroup(): void {
    this.live = this.nodes.flatMap((node) => (node.connection?.open ? [node.connection] : []))
    this.byHost = new Map()
    for (const connection of this.live) {
      const host = connection.login!.hostId
      this.byHost.set(host, [...(this.byHost.get(host) ?? []), connection])
    }
  }

  /** What a listener throws is thrown where nothing of the driver's is under way. */
  private tell<Event extends keyof ClientEvents>(event: Event, ...told: ClientEvents[Event]): void {
    const emit = this.emit as (event: Event, ...told: ClientEvents[Event]) => boolean
    try {
      emit.call(this, event, ...told)
    } catch (error) {
      process.nextTick(() => {
        throw error
      })
    }
  }

  /** A call of the driver's own. Without an answer calls go anywhere, which is right if slower. */
  private ask(connection: Connection, procedure: string, parameters: Parameter[], then: (response: Response) => void): void {
    if (!connection.open) return
    const ignored = (): void => {}
    connection.send({
      procedure,
      name: encodeName(procedure),
      parameters,
      timeoutMs: this.settings.connectTimeoutMs,
      answered: (response) => {
        try {
          if (response.status === Status.SUCCESS) then(response)
        } catch {
          // An answer of another shape: this server is called without affinity.
        }
      },
      ended: ignored,
      late: ignored,
      unsent: ignored,
    })
  }

  /** Asks to be told of changes, and for what is so now. */
  private subscribe(connection: Connection): void {
    this.ask(connection, '@Subscribe', ['TOPOLOGY'], () => {})
    this.ask(connection, '@SystemCatalog', ['PROCEDURES'], (response) => this.learn(connection, 'procedures', response))
    this.askLeaders(connection)
  }

  private askLeaders(connection: Connection): void {
    this.ask(connection, '@Statistics', ['TOPO', 0], (response) => this.learn(connection, 'topology', response))
  }

  private learn(by: Connection, kind: 'topology' | 'procedures', response: Response): void {
    try {
      if (kind === 'procedures') return this.topology.learnProcedures(response.tables)
      const led = this.topology.leading()
      if (this.topology.learnTopology(response.tables)) {
        const leading = this.topology.leading()
        for (const host of led) if (!leading.has(host)) for (const connection of this.byHost.get(host) ?? []) connection.leadsNoMore()
        this.tell('topology')
      }
    } catch {
      // Of another shape: calls go where they went before. It is no reason to lose a connection.
      return
    }
    if (this.settings.discover && [...this.topology.hosts].some((host) => !this.byHost.has(host))) {
      this.ask(by, '@SystemInformation', ['OVERVIEW'], (overview) => this.discover(overview.tables[0]))
    }
  }

  /** An answer that may mean that another node leads now. */
  private refused(by: Connection, status: number): void {
    const moved = status === Status.SERVER_UNAVAILABLE || status === Status.RESPONSE_UNKNOWN
    if (!moved || this.topology.hosts.size < 2 || this.closed) return
    this.doubted = by
    if (!this.askTimer) this.askAnother()
  }

  /**
   * Asks who leads, not the node that has just said that it does not if there is another: it may be
   * cut off and know less than they do. A different one each time.
   */
  private askAnother(): void {
    const doubted = this.doubted
    this.doubted = null
    this.askTimer = null
    if (!doubted || this.closed) return
    const live = this.live
    let asked = doubted
    for (let step = 0; step < live.length; step++) {
      this.askNext = (this.askNext + 1) % 1048576
      const other = live[this.askNext % live.length]!
      if (other.login?.hostId === doubted.login?.hostId) continue
      asked = other
      break
    }
    this.askLeaders(asked)
    this.askTimer = setTimeout(() => this.askAnother(), ASK_PAUSE_MS)
    this.askTimer.unref()
  }

  /** Connects to nodes that there are no connections to; lets go of those that are no more. */
  private discover(overview: Table | undefined): void {
    if (this.closed) return
    const hosts = hostsOf(overview)
    for (const node of [...this.nodes]) {
      const listed = hosts.some((host) => host.host === node.host && host.port === node.port)
      if (node.found && !node.connection && !listed) this.forget(node)
    }
    for (const host of hosts) {
      // A node that was named is waited for where the caller has said.
      const known = this.nodes.some(
        (node) => (node.host === host.host && node.port === host.port) || (node.hostId === host.id && (node.connection !== null || !node.found)),
      )
      if (known) continue
      for (const node of this.addNode(host, true)) this.open(node).catch(() => {})
    }
  }
}

function parseAddress(text: string): { host: string; port: number } {
  const match = /^\s*(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?\s*$/.exec(text)
  const port = match?.[3] === undefined ? 21212 : Number(match[3])
  if (!match || port < 1 || port > 65535) {
    throw new FerriteError(`'${text}' is not a server: write host, host:port or [address]:port, with a port from 1 to 65535`)
  }
  return { host: (match[1] ?? match[2])!, port }
}
