internal import BreakerCore
internal import BreakerStore

/// A permit as text, with which another process can report how the call went.
///
/// ```swift
/// // In the process that dispatches the work:
/// let token = try breaker.acquireToken(endingWith: workerPid)
/// send(token.description, to: workerPid)
///
/// // In the worker:
/// if let token = PermitToken(text) { try store.report(token, .success) }
/// ```
///
/// A token counts under `rate`, but takes no room under `max-concurrent`, and does not wait: once it was
/// passed on, no process could tell whose it is. A call that has to take room runs inside of `run`, with a
/// permit, or behind `cbctl run`.
///
/// The text has no spaces and no characters that are special to a shell, and at most 1,024 bytes.
/// The token of a probe can be used once. The token of a normal call is not recorded anywhere, and
/// counts each time it is used.
public struct PermitToken: Sendable, Hashable {
  /// The name of the breaker.
  public let name: String

  /// The part of a ticket that means something in any process.
  private let numbers: Ticket

  init(name: String, ticket: Ticket) {
    let grant = PermitGrant(
      kind: ticket.kind, generation: ticket.grant.generation, lease: ticket.grant.lease,
      deadline: ticket.kind == .probe ? ticket.grant.deadline : nil)
    self.init(name: name, grant, breaker: ticket.breaker, lineage: ticket.lineage)
  }

  private init(name: String, _ grant: PermitGrant, breaker: Int64, lineage: Int64) {
    self.name = name
    var numbers = Ticket(grant, breaker: breaker, lineage: lineage, from: .store)
    numbers.forkDepth = 0
    self.numbers = numbers
  }

  /// The ticket, which belongs to each process that has the token.
  var ticket: Ticket {
    var ticket = numbers
    ticket.forkDepth = ForkGuard.depth
    return ticket
  }

  /// Whether the permit is for an ordinary call or for a probe.
  public var kind: PermitKind { numbers.kind }
}

extension PermitToken: LosslessStringConvertible {
  private static let version = "cb1"

  /// The token as text, which `PermitToken(_:)` reads.
  public var description: String {
    let grant = ticket.grant
    let numbers = [
      ticket.breaker, grant.generation, grant.lease, grant.deadline?.nanoseconds ?? 0,
    ].map { String($0) }
    let store = String(UInt64(bitPattern: ticket.lineage), radix: 36)
    return ([Self.version, store] + numbers + [Self.escaped(name)]).joined(separator: ".")
  }

  /// Reads a token from its text; nil if the text is not a token.
  public init?(_ description: String) {
    guard description.utf8.count <= 1_024 else { return nil }
    let parts = description.split(separator: ".", maxSplits: 6, omittingEmptySubsequences: false)
    guard parts.count == 7, parts[0] == Self.version, let store = UInt64(parts[1], radix: 36),
      String(store, radix: 36) == parts[1], let name = Self.unescaped(parts[6]),
      OutsideText.complaint(aboutName: name) == nil
    else { return nil }
    let numbers = parts[2...5].compactMap { part in
      part.utf8.allSatisfy { (0x30...0x39).contains($0) } ? Int64(part) : nil
    }
    guard numbers.count == 4, numbers[0] > 0 else { return nil }
    let isProbe = numbers[2] > 0
    // Only the lease of a probe ends.
    guard isProbe || numbers[3] == 0 else { return nil }
    let grant = PermitGrant(
      kind: isProbe ? .probe : .normal, generation: numbers[1], lease: numbers[2],
      deadline: isProbe ? Instant(nanoseconds: numbers[3]) : nil)
    self.init(name: name, grant, breaker: numbers[0], lineage: Int64(bitPattern: store))
  }

  private static func escaped(_ name: String) -> String {
    var text = ""
    for byte in name.utf8 {
      switch byte {
      case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F:
        text.unicodeScalars.append(Unicode.Scalar(byte))
      default:
        let digits = String(byte, radix: 16, uppercase: true)
        text += "%" + (byte < 16 ? "0" : "") + digits
      }
    }
    return text
  }

  private static func unescaped(_ text: Substring) -> String? {
    var bytes: [UInt8] = []
    var rest = text.utf8[...]
    while let byte = rest.popFirst() {
      if byte != 0x25 {
        bytes.append(byte)
        continue
      }
      guard let digits = String(rest.prefix(2)), digits.utf8.count == 2,
        let value = UInt8(digits, radix: 16)
      else { return nil }
      bytes.append(value)
      rest = rest.dropFirst(2)
    }
    return String(validating: bytes, as: UTF8.self)
  }
}

extension Breaker {
  /// Asks for the right to make one call whose outcome another process will report.
  ///
  /// It always needs the store, whatever ``StoreOptions/onStoreFailure`` says, because the token
  /// refers to a breaker in the store.
  ///
  /// - Parameters:
  ///   - pid: The process whose end frees a probe's slot; if nil, or if its end cannot be seen, the
  ///     slot is free when the probe has reported, or at `probe-timeout`.
  ///   - probeTimeout: How long the call may take as a probe; it counts where it is longer than the
  ///     policy's `probe-timeout`.
  /// - Returns: The token to report with, to ``SharedStore/report(_:_:elapsed:)``.
  /// - Throws: `BreakerError.rejected` if the breaker rejects the call,
  ///   `BreakerError.noSuchProcess` if it does not but `pid` is not running, and
  ///   `BreakerError.store` if the store cannot be used.
  public func acquireToken(
    endingWith pid: Int32? = nil, probeTimeout: Duration? = nil
  ) throws(BreakerError) -> PermitToken {
    var owner: ProcessIdentity?
    if let pid {
      owner = engine.options.processes.find(pid)
      // A rejection comes first: a script that takes nothing else for one would run its job.
      if owner == nil, snapshot().permits { throw .noSuchProcess(pid) }
    }
    var request = Engine.Request(
      owner: .token(owner), probeTimeout: probeTimeout, onFailure: .throw, isNamed: true)
    request.claim.needsNoRoom = true
    switch try engine.admit(request, to: cell) {
    case .permitted(let ticket): return PermitToken(name: name, ticket: ticket)
    case .rejected(let rejection): throw .rejected(name: name, told(rejection))
    }
  }
}

extension SharedStore {
  /// Reports how the call of a token went.
  ///
  /// - Parameters:
  ///   - token: The token that the call was given.
  ///   - outcome: How the call went.
  ///   - elapsed: How long the call took; if nil, the call is not judged as slow.
  /// - Returns: The verdict on the report. The report of a probe that has lost its lease, or has
  ///   reported already, is refused.
  /// - Throws: `BreakerError.store` if the store cannot be used. Report again when it can be.
  @discardableResult
  public func report(
    _ token: PermitToken, _ outcome: CallOutcome, elapsed: Duration? = nil
  ) throws(BreakerError) -> ReportVerdict {
    do throws(StoreError) {
      let cell = engine.cell(token.name)
      let verdict = try engine.acceptInStore(
        .init(outcome: outcome, ticket: token.ticket, elapsed: elapsed), of: cell)
      if verdict == .counted, outcome == .success {
        engine.letRampGrow(after: token.ticket, of: cell)
      }
      return verdict
    } catch {
      throw .store(error)
    }
  }

  /// Renews the lease of a probe that was given a token and is still making progress.
  ///
  /// It works like ``Permit/renew(for:)``.
  ///
  /// - Parameters:
  ///   - token: The token that the call was given.
  ///   - time: How long the lease lasts from now on; `probe-timeout` if nil.
  /// - Returns: Whether the probe still holds its lease; if not, its report will be refused.
  /// - Throws: `BreakerError.store` if the store cannot be used. The lease is unchanged: try again.
  @discardableResult
  public func renew(
    _ token: PermitToken, for time: Duration? = nil
  ) throws(BreakerError) -> Bool {
    do throws(StoreError) {
      return try engine.renewInStore(token.ticket, of: engine.cell(token.name), for: time)
    } catch {
      throw .store(error)
    }
  }
}
