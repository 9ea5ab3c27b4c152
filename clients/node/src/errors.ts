// What a call can end with when it does not end well. Owns the status codes of the protocol and
// their meaning.

/** Status of a response: 1 is success, everything else is in the words of the protocol. */
export const Status = {
  SUCCESS: 1,
  USER_ABORT: -1,
  GRACEFUL_FAILURE: -2,
  UNEXPECTED_FAILURE: -3,
  CONNECTION_LOST: -4,
  SERVER_UNAVAILABLE: -5,
  CONNECTION_TIMEOUT: -6,
  RESPONSE_UNKNOWN: -7,
  OPERATIONAL_FAILURE: -9,
  CLIENT_ERROR_NOT_SENT: -14,
  REQUEST_TIMEOUT: -15,
  RESPONSE_TIMEOUT: -16,
} as const

/** Whether the transaction of a failed call took place. */
export type Outcome = 'failed' | 'unknown' | 'not-sent'

/** Base of all errors of this driver. */
export class FerriteError extends Error {
  override name = 'FerriteError'
  constructor(
    message: string,
    /**
     * The SQLSTATE: five characters, such as '23505' for a violated unique key. docs/errors.md
     * lists them.
     */
    readonly code: string = '22023',
  ) {
    super(message)
  }
}

/** The call was answered with a failure, or cannot be answered any more. */
export class CallError extends FerriteError {
  override name = 'CallError'
  constructor(
    message: string,
    /** SQLSTATE of the failure; 'HY000' if the server sent none. */
    code: string,
    /** Status code of the protocol, or a client's own one (-4, -14, -16). */
    readonly status: number,
    /**
     * 'failed': rolled back. 'unknown': it may have committed. 'not-sent': it never left this
     * process.
     */
    readonly outcome: Outcome,
    readonly procedure: string,
    readonly applicationStatus: number | null = null,
    readonly applicationStatusText: string | null = null,
  ) {
    super(message, code)
  }
}

/** The server refused the login, or what it said was not the protocol. */
export class ConnectError extends FerriteError {
  override name = 'ConnectError'
  constructor(
    message: string,
    /** '08001' if the server could not be reached, '28000' if user or password are wrong. */
    code: string,
    readonly address: string,
    /** Refusals that another attempt cannot mend, such as a wrong password. */
    readonly permanent: boolean = false,
  ) {
    super(message, code)
  }
}

/** A value that cannot be sent, or was asked for in a form that would change it. */
export class ValueError extends FerriteError {
  override name = 'ValueError'
}

const UNKNOWN = new Set<number>([Status.CONNECTION_LOST, Status.RESPONSE_UNKNOWN, Status.RESPONSE_TIMEOUT, Status.CONNECTION_TIMEOUT])

/** What a status from the server says about the transaction. */
export function outcomeOf(status: number): Outcome {
  return UNKNOWN.has(status) ? 'unknown' : 'failed'
}

const LOGIN_FAILURES: Record<number, string> = {
  [-1]: 'user or password is wrong',
  1: 'the server has too many connections',
  2: 'the login took too long',
  3: 'the server did not understand the login',
  4: 'the node is rejoining its cluster; try another one',
  5: 'the service is not available',
  6: 'the server asks for TLS: give the option tls',
  7: 'the server asks for a client certificate: give it in the option tls',
  8: 'the client certificate has been revoked',
}

const LOGIN_CODES: Record<number, string> = { [-1]: '28000', 1: '53300', 3: '08P01', 4: '57P03', 7: '28000', 8: '28000' }

/** Text, SQLSTATE and permanence of a login failure code. */
export function loginFailure(code: number): { text: string; state: string; permanent: boolean } {
  return {
    text: LOGIN_FAILURES[code] ?? `the server refused the login with code ${code}`,
    state: LOGIN_CODES[code] ?? '08004',
    permanent: code !== 1 && code !== 2 && code !== 4,
  }
}
