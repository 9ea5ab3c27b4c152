// The client: connections to all nodes, where a call goes, how many may be on their way, and what
// is counted. Promises that each call ends exactly once, and that `close` leaves nothing behind.

import { EventEmitter } from 'node:events'
import type { ConnectionOptions as TlsOptions } from 'node:tls'
import { Connection, type Call } from './connection.js'
import { CallError, ConnectError, FerriteError, outcomeOf, Status, ValueError } from './errors.js'
import { Table, type Response, type Row } from './reader.js'
import { Result } from './result.js'
import { Recorder, type ConnectionStatistics, type Statistics } from './statistics.js'
import { Topology } from './topology.js'
import { Type, typed, type BigintMode, type DecimalMode, type Parameter, type Value, type ValueModes } from './types.js'
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
  connection: Connection | null
  hostId: number | null
  attempts: number
  reconnects: number
  timer: NodeJS.Timeout | null
}

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
    for (const server of servers) this.addNode(parseAddress(server))
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
    for (const node of this.nodes) {
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
      this.emit('backpressure', true)
    }
  }

  private choose(call: PendingCall): Connection {
    const live = this.live
    if (live.length === 1) return live[0]!
    const host = this.settings.affinity && !call.destination ? this.topology.host(call.procedure, call.parameters) : null
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
    count: (procedure, what, latencyUs) => {
      for (const recorder of [this.total, this.interval]) {
        const counts = recorder.of(procedure)
        counts[what] += 1
        if (latencyUs !== undefined) counts.latency.record(latencyUs)
      }
      if (what === 'late') this.emit('late', procedure)
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
      this.emit('backpressure', false)
    }
    if (this.drained && this.outstanding === 0) this.drained()
  }

  // --- connections ---

  private addNode(address: { host: string; port: number }): Node[] {
    const added: Node[] = []
    for (let index = 0; index < this.settings.connectionsPerServer; index++) {
      const node: Node = {
        ...address,
        address: `${address.host}:${address.port}`,
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
        pushed: (kind, response) => this.learn(kind, response),
      },
    )
    try {
      const login = await connection.connect()
      if (this.closed) {
        connection.close('the client was closed')
        return
      }
      this.refuseStranger(node, connection)
      node.connection = connection
      node.hostId = login.hostId
      node.attempts = 0
      this.regroup()
      this.emit('connect', node.address)
      this.pump()
      if (this.settings.affinity || this.settings.discover) this.subscribe(connection)
    } catch (error) {
      const reason = error instanceof ConnectError ? error : new ConnectError((error as Error).message, '08001', node.address)
      if (this.listenerCount('connect-failed') > 0) this.emit('connect-failed', reason)
      if (!reason.permanent) this.again(node)
      throw reason
    }
  }

  /** Two nodes that do not belong to one cluster must not answer the calls of one client. */
  private refuseStranger(node: Node, connection: Connection): void {
    const login = connection.login
    for (const other of this.live) {
      if (login && other.login && (other.login.clusterStart !== login.clusterStart || other.login.leaderAddress !== login.leaderAddress)) {
        connection.close('another cluster')
        throw new ConnectError(`${node.address} belongs to another cluster than ${other.address}`, '08004', node.address, true)
      }
    }
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
    this.emit('disconnect', node.address, reason)
    node.reconnects += 1
    this.again(node)
  }

  private again(node: Node): void {
    if (this.closed || node.timer) return
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

  /** Asks for the topology once and to be told of changes. Without an answer calls go anywhere. */
  private subscribe(connection: Connection): void {
    const ask = (procedure: string, parameters: Parameter[], then: (response: Response) => void): void => {
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
        ended: () => {},
        late: () => {},
      })
    }
    ask('@Subscribe', ['TOPOLOGY'], () => {})
    ask('@Statistics', ['TOPO', 0], (response) => this.learn('topology', response))
    ask('@SystemCatalog', ['PROCEDURES'], (response) => this.learn('procedures', response))
    if (this.settings.discover) ask('@SystemInformation', ['OVERVIEW'], (response) => this.discover(response.tables[0]))
  }

  private learn(kind: 'topology' | 'procedures', response: Response): void {
    if (kind === 'topology') {
      this.topology.learnTopology(response.tables)
      this.emit('topology')
    } else this.topology.learnProcedures(response.tables)
  }

  private discover(overview: Table | undefined): void {
    const hosts = new Map<Value, Map<string, string>>()
    for (const [host, key, value] of overview?.arrays() ?? []) {
      const values = hosts.get(host!) ?? new Map<string, string>()
      values.set(String(key), String(value))
      hosts.set(host!, values)
    }
    if (hosts.size < 2) return
    const known = new Set(this.nodes.map((node) => node.hostId))
    for (const [id, values] of hosts) {
      const [host, port] = [values.get('IPADDRESS'), Number(values.get('CLIENTPORT'))]
      if (!host || !Number.isInteger(port) || known.has(id as number)) continue
      if (this.nodes.some((node) => node.host === host && node.port === port)) continue
      for (const node of this.addNode({ host, port })) this.open(node).catch(() => {})
    }
  }
}

interface Ledger {
  /** A dispatched call ended. */
  finished(): void
  count(procedure: string, what: 'succeeded' | 'failed' | 'unknown' | 'late', latencyUs?: number): void
}

/** A call from `submit` to its end. */
class PendingCall implements Call {
  connection: Connection | null = null
  over = false
  private timer: NodeJS.Timeout | null = null
  private stopListening: (() => void) | null = null

  constructor(
    private readonly ledger: Ledger,
    readonly procedure: string,
    readonly name: Buffer,
    readonly parameters: readonly Parameter[],
    readonly destination: Destination | undefined,
    readonly timeoutMs: number,
    private readonly resolve: (result: Result) => void,
    private readonly reject: (error: Error) => void,
  ) {}

  /** Waits for room or for a connection: its time runs already. */
  wait(): void {
    if (this.timeoutMs > 0) {
      this.timer = setTimeout(() => {
        if (this.connection === null) {
          this.ended(new CallError(`the call could not be sent within ${this.timeoutMs} ms`, 'HYT00', Status.REQUEST_TIMEOUT, 'not-sent', this.procedure))
        }
      }, this.timeoutMs)
      this.timer.unref()
    }
  }

  listen(signal: AbortSignal): void {
    const abort = (): void => {
      const sent = this.connection
      if (this.over) return
      sent?.abandon(this)
      this.ended(
        sent
          ? new CallError('the call was given up after it was sent; the transaction may commit', '08007', Status.RESPONSE_UNKNOWN, 'unknown', this.procedure)
          : new CallError('the call was given up before it was sent', '57014', Status.CLIENT_ERROR_NOT_SENT, 'not-sent', this.procedure),
      )
    }
    signal.addEventListener('abort', abort, { once: true })
    this.stopListening = () => signal.removeEventListener('abort', abort)
  }

  answered(response: Response, latencyUs: number): void {
    const { status } = response
    this.ledger.count(this.procedure, status === Status.SUCCESS ? 'succeeded' : outcomeOf(status) === 'unknown' ? 'unknown' : 'failed', latencyUs)
    if (!this.finish()) return
    if (status === Status.SUCCESS) this.resolve(new Result(response))
    else {
      const text = response.statusText ?? `status ${status}`
      this.reject(new CallError(text, response.code ?? 'HY000', status, outcomeOf(status), this.procedure, response.applicationStatus, response.applicationStatusText))
    }
  }

  ended(error: CallError): void {
    if (error.outcome === 'unknown') this.ledger.count(this.procedure, 'unknown')
    if (this.finish()) this.reject(error)
  }

  refused(error: Error): void {
    this.over = true
    this.settle()
    this.reject(error)
  }

  late(): void {
    this.ledger.count(this.procedure, 'late')
  }

  private finish(): boolean {
    if (this.over) return false
    this.over = true
    this.settle()
    if (this.connection) this.ledger.finished()
    return true
  }

  private settle(): void {
    if (this.timer) clearTimeout(this.timer)
    this.timer = null
    this.stopListening?.()
    this.stopListening = null
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
