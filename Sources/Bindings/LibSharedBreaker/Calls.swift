internal import BreakerCore
package import CSharedBreaker
internal import SharedBreaker

// The first word of a permit tells which breaker gave it, and how. The others are the numbers of a `Ticket`. A call
// that was permitted from memory writes and reads as few of them as it can: each comparison is a hundredth of its time.

extension sb_permit {
  // Bits that no serial has (`BreakerHandle`).

  /// In the first word of a permit that has a whole ticket in the others.
  private static let isTicket: UInt64 = 1 << 63

  /// In that of a call under a limit that found a free slot: of the others, only the word and the room mean anything.
  private static let isLimited: UInt64 = 1 << 59

  /// In that of a call that surrounds what its thread does.
  private static let surrounds: UInt64 = 1 << 58

  /// The serial of the breaker that gave it; 0 if it is not in use.
  @inline(__always) fileprivate var serial: UInt64 {
    opaque.0 & ~(Self.isTicket | Self.isLimited | Self.surrounds)
  }

  @inline(__always) private var hasOwnSize: Bool { size == UInt32(MemoryLayout<sb_permit>.size) }

  /// Whether a breaker may fill it.
  @inline(__always) var isFree: Bool { opaque.0 == 0 && hasOwnSize }

  /// Whether the breaker with a serial gave it for a healthy call.
  ///
  /// An `sb_error` in the place of a breaker that could not be opened has 0 there, as a permit has that is not in use.
  @inline(__always) fileprivate func isHealthyCall(of serial: UInt64) -> Bool {
    opaque.0 == serial && serial != 0 && hasOwnSize
  }

  /// Whether the breaker with a serial gave it for a call under a limit that found a free slot.
  @inline(__always) func isLimitedCall(of serial: UInt64) -> Bool {
    opaque.0 & ~Self.surrounds == serial | Self.isLimited && hasOwnSize
  }

  /// The room of a call under a limit that found a free slot; nil if this is the permit of another one.
  @inline(__always) var roomOfLimitedCall: UInt64? {
    opaque.0 & Self.isLimited != 0 && hasOwnSize ? opaque.10 : nil
  }

  @inline(__always) fileprivate var call: HealthyCall {
    HealthyCall(word: opaque.2, start: Int64(bitPattern: opaque.3))
  }

  @inline(__always) fileprivate mutating func give(_ call: HealthyCall, by serial: UInt64) {
    kind = UInt32(SB_NORMAL.rawValue)
    opaque.0 = serial
    opaque.2 = call.word
    opaque.3 = UInt64(bitPattern: call.start)
  }

  @inline(__always) var limitedCall: LimitedCall {
    LimitedCall(word: opaque.2, room: opaque.10)
  }

  @inline(__always) mutating func give(_ call: LimitedCall, by serial: UInt64) {
    kind = UInt32(SB_NORMAL.rawValue)
    opaque.0 = serial | Self.isLimited
    opaque.2 = call.word
    opaque.10 = call.room
  }

  fileprivate var ticket: Ticket {
    if opaque.0 & Self.isTicket != 0 {
      return unsafe withUnsafeBytes(of: opaque) {
        unsafe $0.load(fromByteOffset: MemoryLayout<UInt64>.stride, as: Ticket.self)
      }
    }
    return opaque.0 & Self.isLimited != 0 ? Ticket(limitedCall) : Ticket(call)
  }

  fileprivate mutating func give(_ ticket: Ticket, by serial: UInt64) {
    kind = UInt32((ticket.kind == .probe ? SB_PROBE : SB_NORMAL).rawValue)
    opaque.0 = serial | Self.isTicket
    unsafe withUnsafeMutableBytes(of: &opaque) {
      unsafe $0.storeBytes(
        of: ticket, toByteOffset: MemoryLayout<UInt64>.stride, as: Ticket.self)
    }
  }

  /// Whether further calls of its thread are inside of its call.
  var isAround: Bool {
    @inline(__always) get { opaque.0 & Self.surrounds != 0 }
    @inline(__always) set {
      opaque.0 = newValue ? opaque.0 | Self.surrounds : opaque.0 & ~Self.surrounds
    }
  }

  @inline(__always) mutating func use() {
    kind = 0
    opaque.0 = 0
  }

  /// The room that the call has taken, or that of the call which it is inside of; 0 if it has none.
  func room() throws(Failure) -> (room: UInt64, isOwn: Bool) {
    try Given.size(size, MemoryLayout<sb_permit>.size, "permit")
    if serial == 0 { throw .permitUsed }
    return (ticket.room, ticket.hasRoom)
  }

  /// Checks that the permit is in use and was given by a breaker.
  fileprivate func check(givenBy serial: UInt64) throws(Failure) {
    try Given.size(size, MemoryLayout<sb_permit>.size, "permit")
    if self.serial == 0 { throw .permitUsed }
    if self.serial != serial {
      throw Failure(SB_ERR_PERMIT_OTHER, "the permit was given by another breaker")
    }
  }
}

@c @implementation
package func sb_enter(
  _ breaker: OpaquePointer?, _ permit: UnsafeMutablePointer<sb_permit>?,
  _ rejection: UnsafeMutablePointer<sb_rejection>?, _ flags: UInt32
) -> CInt {
  // The clock first: what is loaded before it would have to be kept over its call.
  let second = Breaker.systemSecond
  if let handle = unsafe BreakerHandle.at(breaker), let permit = unsafe permit,
    unsafe permit.pointee.isFree, flags & ~Given.flagsOfHealthyCalls == 0,
    unsafe rejection == nil
      || rejection?.pointee.size == UInt32(MemoryLayout<sb_rejection>.size),
    unsafe handle.pointee.store._withUnsafeGuaranteedRef({ !$0.isClosed })
  {
    @inline(__always) func ask(_ breaker: Breaker) -> HealthyCall {
      breaker.permitHealthy(inSecond: second)
    }
    let call = unsafe handle.pointee.breaker._withUnsafeGuaranteedRef(ask)
    if call.isPermitted {
      unsafe permit.pointee.give(call, by: handle.pointee.serial)
      return SB_OK.rawValue
    }
    return unsafe rejectOrEnterWithCare(handle, permit, rejection, flags)
  }
  return unsafe enterWithCare(breaker, 0, permit, rejection, flags)
}

/// Rejects a call from memory if possible; everything the caller passes has been checked.
///
/// By itself, so that a permitted call saves no registers for it.
@inline(never)
private func rejectOrEnterWithCare(
  _ handle: UnsafeMutablePointer<BreakerHandle>, _ permit: UnsafeMutablePointer<sb_permit>,
  _ rejection: UnsafeMutablePointer<sb_rejection>?, _ flags: UInt32
) -> CInt {
  @inline(__always) func wait(_ breaker: Breaker) -> (nanoseconds: Int64, isHeld: Bool)? {
    breaker.waitFromMemory()
  }
  if let wait = unsafe handle.pointee.breaker._withUnsafeGuaranteedRef(wait) {
    if let rejection = unsafe rejection {
      unsafe rejection.pointee.be(isHeld: wait.isHeld, for: wait.nanoseconds)
    }
    return SB_REJECTED.rawValue
  }
  if flags & UInt32(SB_UNLIMITED.rawValue) != 0 {
    @inline(__always) func isLimited(_ breaker: Breaker) -> Bool { breaker.permitsWithinLimit }
    if unsafe handle.pointee.breaker._withUnsafeGuaranteedRef(isLimited) {
      return SB_LIMITED.rawValue
    }
  } else if unsafe enterWithinLimit(handle, 0, permit, flags) {
    return SB_OK.rawValue
  }
  return unsafe enterWithCare(OpaquePointer(handle), 0, permit, rejection, flags)
}

@inline(never)
func enterWithCare(
  _ handle: OpaquePointer?, _ room: UInt64, _ permit: UnsafeMutablePointer<sb_permit>?,
  _ rejection: UnsafeMutablePointer<sb_rejection>?, _ flags: UInt32
) -> CInt {
  if let place = unsafe ErrorPlace.at(handle) {
    return place.keeping(
      unsafe sb_enter_inside(ErrorPlace.handle(handle), room, permit, rejection, flags))
  }
  do throws(Failure) {
    let call = try unsafe EnteringCall(handle, permit, rejection, flags, Given.flagsOfEntering)
    if call.has(SB_UNLIMITED) { return try unsafe enterUnlimited(handle, call).rawValue }
    let decision = try unsafe passing(to: handle, mayWait: call.mayWait) {
      breaker throws(Failure) in
      try throwingFailures(ofBreaker: { () throws(BreakerError) in
        try breaker.enter(
          mayWait: call.mayWait, isRetry: call.has(SB_RETRY),
          insideOf: ThreadCalls.outers(with: room)
        ) {
          CallGate.shared.stepOut($0)
        }
      })
    }
    // The store may have been closed while the call waited for its turn.
    if case .rejected? = decision { _ = try unsafe BreakerHandle.usable(handle) }
    return decision.map(call.answer)?.rawValue ?? SB_WOULD_BLOCK.rawValue
  } catch {
    return unsafe told(error, to: ErrorPlace.at(handle))
  }
}

/// The arguments of a function that enters a call.
@safe struct EnteringCall {
  private let permit: UnsafeMutablePointer<sb_permit>
  private let rejection: UnsafeMutablePointer<sb_rejection>?
  private let serial: UInt64
  private let flags: UInt32

  /// Checks all of it, for the breaker with a serial.
  init(
    by serial: UInt64, _ permit: UnsafeMutablePointer<sb_permit>?,
    _ rejection: UnsafeMutablePointer<sb_rejection>?, _ flags: UInt32, _ allowed: UInt32
  ) throws(Failure) {
    guard let permit = unsafe permit else { throw .argument("the permit is NULL") }
    try unsafe Given.size(permit.pointee.size, MemoryLayout<sb_permit>.size, "permit")
    if unsafe permit.pointee.serial != 0 {
      throw Failure(SB_ERR_PERMIT_LIVE, "the permit still waits for its sb_leave()")
    }
    if let size = unsafe rejection?.pointee.size {
      try Given.size(size, MemoryLayout<sb_rejection>.size, "rejection")
    }
    try Given.flags(flags, allowed: allowed)
    self.serial = serial
    self.flags = flags
    unsafe self.permit = permit
    unsafe self.rejection = rejection
  }

  init(
    _ handle: OpaquePointer?, _ permit: UnsafeMutablePointer<sb_permit>?,
    _ rejection: UnsafeMutablePointer<sb_rejection>?, _ flags: UInt32, _ allowed: UInt32
  ) throws(Failure) {
    let (_, serial) = try unsafe BreakerHandle.usable(handle)
    try unsafe self.init(by: serial, permit, rejection, flags, allowed)
  }

  func has(_ flag: sb_flags) -> Bool { flags & UInt32(flag.rawValue) != 0 }

  var mayWait: Bool { !has(SB_NOWAIT) }

  /// Hands out a decision, and answers its code.
  func answer(_ decision: Decision<Ticket>) -> sb_code {
    switch decision {
    case .permitted(let ticket):
      unsafe permit.pointee.give(ticket, by: serial)
      if has(SB_SURROUND), ticket.hasRoom, ThreadCalls.add(ticket.room) {
        unsafe permit.pointee.isAround = true
      }
      return SB_OK
    case .rejected(let reason):
      unsafe reason.fill(rejection)
      return SB_REJECTED
    }
  }
}

/// Lets a call of a breaker pass the gate that keeps forks away, unless the store was closed meanwhile;
/// nil if that takes waiting, and the caller must not wait.
func passing<Answer>(
  to handle: OpaquePointer?, mayWait: Bool, _ body: (Breaker) throws(Failure) -> Answer?
) throws(Failure) -> Answer? {
  func use() throws(Failure) -> Answer? { try body(try unsafe BreakerHandle.usable(handle).0) }
  if mayWait { return try CallGate.shared.pass(use) }
  return try CallGate.shared.passAtOnce(use) ?? nil
}

@c @implementation
package func sb_leave(
  _ breaker: OpaquePointer?, _ permit: UnsafeMutablePointer<sb_permit>?, _ outcome: CInt,
  _ details: UnsafePointer<sb_details>?, _ flags: UInt32
) -> CInt {
  // All zero if the call is a success (SB_SUCCESS is 0) and nothing else.
  let said =
    UInt64(UInt32(bitPattern: outcome)) | UInt64(UInt(bitPattern: details))
    | UInt64(flags & ~UInt32(SB_NOWAIT.rawValue))
  // The serial tells that the handle is the breaker's, so its mark need not be compared.
  if said == 0, let permit = unsafe permit,
    let handle = unsafe UnsafeMutablePointer<BreakerHandle>(breaker),
    unsafe permit.pointee.isHealthyCall(of: handle.pointee.serial),
    unsafe handle.pointee.store._withUnsafeGuaranteedRef({ !$0.isClosed })
  {
    let call = unsafe permit.pointee.call
    // By itself, so that here no function is called at all.
    if call.isTimed { return unsafe leaveTimed(handle, permit, flags) }
    if unsafe count(call, of: handle) {
      unsafe permit.pointee.use()
      return SB_OK.rawValue
    }
  }
  return unsafe leaveLimited(breaker, permit, outcome, details, flags)
}

/// Reports the success of a call under a limit if that takes no more than freeing its slot; otherwise
/// reports the call with care.
@inline(never)
private func leaveLimited(
  _ handle: OpaquePointer?, _ permit: UnsafeMutablePointer<sb_permit>?, _ outcome: CInt,
  _ details: UnsafePointer<sb_details>?, _ flags: UInt32
) -> CInt {
  if outcome == CInt(SB_SUCCESS.rawValue), unsafe details == nil,
    flags & ~UInt32(SB_NOWAIT.rawValue) == 0, let permit = unsafe permit,
    let handle = unsafe BreakerHandle.at(handle), unsafe leaveWithinLimit(handle, permit)
  {
    return SB_OK.rawValue
  }
  return unsafe leaveWithCare(handle, permit, outcome, details, flags)
}

/// Reports the success of a healthy call whose policy looks at times.
@inline(never)
private func leaveTimed(
  _ handle: UnsafeMutablePointer<BreakerHandle>, _ permit: UnsafeMutablePointer<sb_permit>,
  _ flags: UInt32
) -> CInt {
  if unsafe count(permit.pointee.call, of: handle) {
    unsafe permit.pointee.use()
    return SB_OK.rawValue
  }
  return unsafe leaveWithCare(
    OpaquePointer(handle), permit, CInt(SB_SUCCESS.rawValue), nil, flags)
}

@inline(__always)
private func count(
  _ call: HealthyCall, of handle: UnsafeMutablePointer<BreakerHandle>
) -> Bool {
  @inline(__always) func count(_ breaker: Breaker) -> Bool { breaker.countHealthy(call) }
  return unsafe handle.pointee.breaker._withUnsafeGuaranteedRef(count)
}

@inline(never)
private func leaveWithCare(
  _ handle: OpaquePointer?, _ permit: UnsafeMutablePointer<sb_permit>?, _ outcome: CInt,
  _ details: UnsafePointer<sb_details>?, _ flags: UInt32
) -> CInt {
  if let place = unsafe ErrorPlace.at(handle) {
    return place.keeping(
      unsafe sb_leave(ErrorPlace.handle(handle), permit, outcome, details, flags))
  }
  do throws(Failure) {
    if let closed = unsafe BreakerHandle.at(handle), let permit = unsafe permit?.pointee,
      unsafe permit.serial == closed.pointee.serial,
      unsafe closed.pointee.store.takeUnretainedValue().isClosed
    {
      // Others could not have its room until this process ends.
      unsafe closed.pointee.breaker.takeUnretainedValue().giveBackRoom(of: permit.ticket)
    }
    let (_, serial) = try unsafe BreakerHandle.usable(handle)
    guard let permit = unsafe permit else { throw .argument("the permit is NULL") }
    try unsafe permit.pointee.check(givenBy: serial)
    try Given.flags(flags, allowed: SB_NOWAIT)
    let (outcome, elapsed) = try unsafe Given.outcome(outcome, details)
    let given = unsafe permit.pointee
    let mayWait = flags & UInt32(SB_NOWAIT.rawValue) == 0
    let verdict = try unsafe passing(to: handle, mayWait: mayWait) { breaker throws(Failure) in
      breaker.leave(given.ticket, outcome, elapsed: elapsed, mayWait: mayWait)
    }
    guard let verdict else {
      return mayWait ? SB_INTERRUPTED.rawValue : SB_WOULD_BLOCK.rawValue
    }
    if given.isAround { ThreadCalls.remove(given.ticket.room) }
    unsafe permit.pointee.use()
    return verdict.code.rawValue
  } catch {
    return unsafe told(error, to: ErrorPlace.at(handle))
  }
}

@c @implementation
package func sb_judge_http(
  _ status: CInt, _ headers: UnsafePointer<CChar>?, _ headers_length: Int64,
  _ details: UnsafeMutablePointer<sb_details>?
) -> CInt {
  do throws(Failure) {
    let text = try unsafe CText.repaired(headers, headers_length, "headers", keeping: 65_536) ?? ""
    if let details = unsafe details {
      try unsafe Given.size(details.pointee.size, MemoryLayout<sb_details>.size, "details")
      unsafe details.pointee.open_for_ns = 0
      unsafe details.pointee.hold_for_ns = 0
    }
    // In a Swift string, a carriage return and a line feed are one character.
    let lines = text.split(whereSeparator: \.isNewline).compactMap { line in
      line.firstIndex(of: ":").map { colon in
        (key: String(line[..<colon]), value: String(line[colon...].dropFirst()))
      }
    }
    switch CallOutcome.http(status: Int(status), headers: lines) {
    case .hold(let hold):
      let time = hold.nanoseconds(at: StoreClock.system.moment) ?? 0
      unsafe details?.pointee.hold_for_ns = Given.named(time)
      return CInt(SB_HOLD.rawValue)
    case .failure(let failure):
      if case .opens(let time) = failure.kind {
        unsafe details?.pointee.open_for_ns = Given.named(time.inNanoseconds)
      }
      return CInt(SB_FAILURE.rawValue)
    case .success, .ignored: return CInt(SB_SUCCESS.rawValue)
    }
  } catch {
    return told(error, to: nil)
  }
}

@c @implementation
package func sb_renew(
  _ breaker: OpaquePointer?, _ permit: UnsafePointer<sb_permit>?, _ for_ns: Int64
) -> CInt {
  unsafe answer(breaker) { () throws(Failure) in
    let (breaker, serial) = try unsafe BreakerHandle.usable(breaker)
    guard let permit = unsafe permit?.pointee else { throw .argument("the permit is NULL") }
    try permit.check(givenBy: serial)
    let time = try Given.duration(for_ns, "for_ns")
    let holds = try throwingFailures(ofBreaker: { () throws(BreakerError) in
      try breaker.renew(permit.ticket, for: time)
    })
    return holds ? SB_OK : SB_REFUSED
  }
}

@c @implementation
package func sb_rejection_text(
  _ breaker: OpaquePointer?, _ rejection: UnsafePointer<sb_rejection>?,
  _ text: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?,
  _ length: UnsafeMutablePointer<Int64>?
) -> CInt {
  unsafe answer(breaker) { () throws(Failure) in
    let receiver = try unsafe TextReceiver(text, length)
    let (breaker, _) = try unsafe BreakerHandle.usable(breaker)
    guard let rejection = unsafe rejection?.pointee else {
      throw .argument("the rejection is NULL")
    }
    try receiver.take(
      BreakerError.rejected(name: breaker.name, try Rejection(rejection)).description)
    return SB_OK
  }
}
