// One connection: login, calls out, answers in. Calls of one turn of the event loop leave in one
// write; a call that was handed over ends exactly once: answered, failed, or unknown when the
// connection breaks or its time is over. Does not know other connections, nor where a call should
// go.

import { connect as connectSocket, type Socket } from 'node:net'
import { connect as connectTls, TLSSocket, type ConnectionOptions } from 'node:tls'
import { CallError, ConnectError, loginFailure, Status, type FerriteError } from './errors.js'
import { FrameSplitter, readLogin, readResponse, type Login, type Response } from './reader.js'
import type { Parameter, ValueModes } from './types.js'
import { loginFrame, writeCall, Writer, type Destination } from './writer.js'

/** A call on its way. The owner keeps it; the connection calls one of the two ends, once. */
export interface Call {
  readonly procedure: string
  readonly name: Buffer
  readonly parameters: readonly Parameter[]
  readonly destination?: Destination | undefined
  /** Milliseconds that the caller waits; 0: for ever. */
  readonly timeoutMs: number
  answered(response: Response, latencyUs: number): void
  ended(error: CallError): void
  /** An answer after the call had ended by its timeout. */
  late(): void
  /** The connection is over, and never sent it. */
  unsent(error: CallError): void
}

export interface ConnectionOptionsOfOne {
  host: string
  port: number
  user: string
  password: string
  tls: ConnectionOptions | boolean | undefined
  connectTimeoutMs: number
  modes: ValueModes
}

export interface ConnectionEvents {
  /** The connection is over; every call that it had sent has ended. */
  closed(reason: FerriteError): void
  /** A call was answered with this status, which is not success. */
  failed(status: number): void
  /** A message that no call asked for: 'topology' or 'procedures'. */
  pushed(kind: 'topology' | 'procedures', response: Response): void
}

const SLOT = 4294967296
const GENERATIONS = 1048576
const PUSHED_HIGH = 0x7fffffff
const PUSHED_TOPOLOGY = 0xfffffffe
const PUSHED_PROCEDURES = 0xfffffffd
const TICK_MS = 50
/** Received nothing for this long with calls outstanding: ask whether the server is there. */
const PING_AFTER_MS = 10_000
const SILENCE_MS = 30_000
/**
 * Ticks for which a server may be silent in whose place another leads. Those that a busy process
 * misses do not count.
 */
const DOUBT_TICKS = 2_000 / TICK_MS

interface Slot {
  call: Call | null
  generation: number
  sentAt: number
  timedOut: boolean
}

export class Connection {
  readonly address: string
  login: Login | null = null
  outstanding = 0
  bytesSent = 0
  bytesReceived = 0
  private socket: Socket | null = null
  private readonly writer = new Writer()
  private readonly splitter = new FrameSplitter()
  private readonly slots: Slot[] = []
  private readonly free: number[] = []
  private unsent: number[] = []
  private flushing = false
  private ticker: NodeJS.Timeout | null = null
  private lastReceived = 0
  private closing = false

  constructor(
    private readonly options: ConnectionOptionsOfOne,
    private readonly events: ConnectionEvents,
  ) {
    this.address = `${options.host.includes(':') ? `[${options.host}]` : options.host}:${options.port}`
  }

  get open(): boolean {
    return this.login !== null && this.socket !== null && !this.closing
  }

  /** Connects and logs in. Afterwards `closed` tells of the end; a failure here is only thrown. */
  async connect(): Promise<Login> {
    const { host, port, tls, connectTimeoutMs } = this.options
    const socket = tls
      ? connectTls({ host, port, ...(typeof tls === 'object' ? tls : {}) })
      : connectSocket({ host, port, noDelay: true })
    socket.setNoDelay(true)
    try {
      this.login = await new Promise<Login>((resolve, reject) => {
        const fail = (why: string, code = '08001', permanent = false): void =>
          reject(new ConnectError(`${this.address}: ${why}`, code, this.address, permanent))
        const timer = setTimeout(() => fail(`no login within ${connectTimeoutMs} ms`), connectTimeoutMs)
        const settled = (): void => {
          clearTimeout(timer)
          socket.removeAllListeners()
        }
        socket.on('error', (error) => {
          settled()
          fail(reason(error))
        })
        socket.on('close', () => {
          settled()
          fail('the server closed the connection during the login')
        })
        socket.on(tls ? 'secureConnect' : 'connect', () => socket.write(loginFrame(this.options.user, this.options.password)))
        socket.on('data', (chunk: Buffer) => {
          try {
            this.splitter.push(chunk, (frame, start, end) => {
              settled()
              const answer = readLogin(frame, start, end)
              if ('refused' in answer) {
                const { text, state, permanent } = loginFailure(answer.refused)
                fail(answer.reason ?? text, state, permanent)
              } else resolve(answer)
            })
          } catch (error) {
            settled()
            fail(`the answer to the login is not the protocol (${(error as Error).message})`, '08P01', true)
          }
        })
      })
    } catch (error) {
      socket.on('error', () => {})
      socket.destroy()
      throw error
    }
    this.socket = socket
    this.lastReceived = performance.now()
    socket.on('data', (chunk: Buffer) => this.received(chunk))
    socket.on('error', (error) => this.end(`the connection broke: ${error.message}`))
    socket.on('close', () => this.end('the server closed the connection'))
    this.ticker = setInterval(() => this.tick(), TICK_MS)
    this.ticker.unref()
    return this.login
  }

  /**
   * Takes a call. Throws if its parameters cannot be sent; then it never was on this connection.
   */
  send(call: Call): void {
    const place = this.free.pop() ?? this.slots.push({ call: null, generation: 0, sentAt: 0, timedOut: false }) - 1
    const slot = this.slots[place]!
    slot.generation = (slot.generation + 1) % GENERATIONS
    try {
      writeCall(this.writer, call.name, slot.generation * SLOT + place, call.parameters, call.timeoutMs > 0 ? Math.min(call.timeoutMs, 2147483647) : 0, call.destination)
    } catch (error) {
      this.free.push(place)
      throw error
    }
    slot.call = call
    slot.timedOut = false
    slot.sentAt = 0
    this.unsent.push(place)
    this.outstanding += 1
    if (!this.flushing) {
      this.flushing = true
      setImmediate(() => this.flush())
    }
  }

  private flush(): void {
    this.flushing = false
    const socket = this.socket
    if (!socket || this.unsent.length === 0) return
    const now = performance.now()
    for (const place of this.unsent) this.slots[place]!.sentAt = now
    this.unsent = []
    const bytes = this.writer.take()
    this.bytesSent += bytes.length
    socket.write(bytes)
  }

  private received(chunk: Buffer): void {
    this.bytesReceived += chunk.length
    const now = performance.now()
    this.lastReceived = now
    try {
      this.splitter.push(chunk, (frame, start, end) => this.answer(readResponse(frame, start, end, this.options.modes), now))
    } catch (error) {
      this.end(`what the server sent is not the protocol: ${(error as Error).message}`, '08P01')
    }
  }

  private answer(response: Response, now: number): void {
    const place = response.handleLow
    if (response.handleHigh === PUSHED_HIGH) {
      if (place === PUSHED_TOPOLOGY) this.events.pushed('topology', response)
      else if (place === PUSHED_PROCEDURES) this.events.pushed('procedures', response)
      return
    }
    const slot = this.slots[place]
    if (!slot || slot.call === null || slot.generation !== response.handleHigh) {
      return this.end('the server answered a call that was not made', '08P01')
    }
    const call = slot.call
    slot.call = null
    this.free.push(place)
    if (slot.timedOut) call.late()
    else {
      this.outstanding -= 1
      call.answered(response, (now - slot.sentAt) * 1000)
      if (response.status !== Status.SUCCESS) this.events.failed(response.status)
    }
  }

  /** Ends calls whose time is over, asks a silent server whether it is there. */
  private tick(): void {
    const now = performance.now()
    let waiting = 0
    for (const slot of this.slots) {
      const call = slot.call
      if (call === null || slot.timedOut) continue
      waiting += 1
      if (call.timeoutMs > 0 && slot.sentAt > 0 && now - slot.sentAt > call.timeoutMs) {
        slot.timedOut = true
        this.outstanding -= 1
        call.ended(new CallError(`no answer from ${this.address} within ${call.timeoutMs} ms; the transaction may have committed`, 'HYT00', Status.RESPONSE_TIMEOUT, 'unknown', call.procedure))
          }
    }
    if (this.doubt > 0 && this.lastReceived > this.doubtedAt) this.doubt = 0
    if (this.doubt > 0 && --this.doubt === 0) return this.giveUp('it does not lead any more, and answers nothing')
    const silent = now - this.lastReceived
    if (silent > SILENCE_MS && waiting > 0) this.giveUp(`the server has been silent for ${Math.round(silent / 1000)} s`)
    else if (silent > PING_AFTER_MS && !this.pinging) this.ping()
  }

  /**
   * Another server leads in the place of this one, which may be dead or cut off: it is asked
   * whether it is there, and not waited for as long as others.
   */
  leadsNoMore(): void {
    if (this.doubt > 0) return
    this.doubt = DOUBT_TICKS
    this.doubtedAt = performance.now()
    if (!this.pinging) this.ping()
  }

  private doubt = 0
  private doubtedAt = 0
  private pinging = false
  private ping(): void {
    this.pinging = true
    const done = (): void => void (this.pinging = false)
    this.send({ procedure: '@Ping', name: PING, parameters: [], timeoutMs: 0, answered: done, ended: done, late: done, unsent: done })
  }

  /** Ends the wait for a call that the caller gave up: its answer will be late. */
  abandon(call: Call): void {
    for (const slot of this.slots) {
      if (slot.call === call && !slot.timedOut) {
        slot.timedOut = true
        this.outstanding -= 1
            return
      }
    }
  }

  /** Closes after what was written has gone out. Calls without an answer end as unknown. */
  close(reason: string): void {
    this.flush()
    this.socket?.end()
    this.end(reason)
  }

  /**
   * Ends the connection to a server that is silent. What the system has of calls that end with it
   * must not reach the server later, when whoever called has looked whether they took place.
   * Node.js offers that for plain connections only.
   */
  private giveUp(why: string): void {
    if (this.socket && !(this.socket instanceof TLSSocket)) this.socket.resetAndDestroy()
    this.end(why)
  }

  private end(why: string, code = '08007'): void {
    if (this.closing) return
    this.closing = true
    if (this.ticker) clearInterval(this.ticker)
    const socket = this.socket
    this.socket = null
    socket?.removeAllListeners()
    socket?.on('error', () => {})
    if (socket && !socket.writableEnded) socket.destroy()
    else setTimeout(() => socket?.destroy(), 1000).unref()
    const notSent = new Set(this.unsent)
    this.unsent = []
    const unsent: Call[] = []
    for (const [place, slot] of this.slots.entries()) {
      const call = slot.call
      slot.call = null
      if (call === null || slot.timedOut) continue
      this.outstanding -= 1
      if (notSent.has(place)) unsent.push(call)
      else call.ended(new CallError(`${why} (${this.address}); the transaction may have committed`, code, Status.CONNECTION_LOST, 'unknown', call.procedure))
    }
    this.events.closed(new ConnectError(`${this.address}: ${why}`, code, this.address))
    for (const call of unsent) {
      call.unsent(new CallError(`${why} (${this.address}) before the call was sent`, '08003', Status.CLIENT_ERROR_NOT_SENT, 'not-sent', call.procedure))
    }
  }
}

/** Why a socket could not be opened, and what to look at. */
function reason(error: NodeJS.ErrnoException): string {
  // Of several addresses that all failed, only the code says why.
  const message = error.message || error.code || 'cannot connect'
  switch (error.code) {
    case 'ECONNREFUSED':
      return `${message}; check that a server listens there`
    case 'ENOTFOUND':
      return `${message}; check the host's name`
    default:
      return message
  }
}

const PING = Buffer.from('\0\0\0\x05@Ping', 'latin1')
