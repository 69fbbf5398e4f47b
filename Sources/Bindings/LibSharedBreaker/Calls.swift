internal import BreakerCore
package import CSharedBreaker
internal import SharedBreaker

// The first word of a permit tells which breaker gave it, and whether the others hold the numbers of a
// `PlainPermit`. A healthy call writes and reads only the first, the third and the fourth, and compares
// as few of them as it can: each comparison is a hundredth of its time.

extension sb_permit {
  /// In the first word of a permit that has a `PlainPermit` in the others.
  private static let isPlain: UInt64 = 1 << 63

  /// The serial of the breaker that gave it; 0 if it is not in use.
  @inline(__always) fileprivate var serial: UInt64 { opaque.0 & ~Self.isPlain }

  @inline(__always) fileprivate var isHealthy: Bool { opaque.0 & Self.isPlain == 0 }

  /// Whether the breaker with a serial gave it for a healthy call.
  @inline(__always) fileprivate func isHealthyCall(of serial: UInt64) -> Bool {
    opaque.0 == serial && size == UInt32(MemoryLayout<sb_permit>.size)
  }

  /// Whether the breaker with a serial gave it for a call under a limit that found a free slot.
  @inline(__always) func isLimitedCall(of serial: UInt64) -> Bool {
    opaque.0 == serial | Self.isPlain && opaque.1 & PlainPermit.limited != 0
      && size == UInt32(MemoryLayout<sb_permit>.size)
  }

  /// The room of a call under a limit that found a free slot; nil if this is the permit of another one.
  @inline(__always) var roomOfLimitedCall: UInt64? {
    let isLimited =
      opaque.0 & Self.isPlain != 0 && opaque.1 & PlainPermit.limited != 0
      && size == UInt32(MemoryLayout<sb_permit>.size)
    return isLimited ? opaque.10 : nil
  }

  /// Whether a breaker may fill it.
  @inline(__always) var isFree: Bool {
    opaque.0 == 0 && size == UInt32(MemoryLayout<sb_permit>.size)
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
    opaque.0 = serial | Self.isPlain
    opaque.1 = PlainPermit.limited
    opaque.2 = call.word
    opaque.10 = call.room
  }

  @inline(__always) mutating func use() {
    kind = 0
    opaque.0 = 0
  }

  fileprivate mutating func give(_ permit: PlainPermit, by serial: UInt64) {
    let isProbe = permit.flags & PlainPermit.probe != 0
    kind = UInt32((isProbe ? SB_PROBE : SB_NORMAL).rawValue)
    opaque.0 = serial | Self.isPlain
    opaque.1 = permit.flags
    opaque.2 = permit.word
    opaque.3 = UInt64(bitPattern: permit.start)
    opaque.4 = UInt64(bitPattern: permit.generation)
    opaque.5 = UInt64(bitPattern: permit.lease)
    opaque.6 = UInt64(bitPattern: permit.deadline)
    opaque.7 = UInt64(bitPattern: permit.breaker)
    opaque.8 = UInt64(bitPattern: permit.lineage)
    opaque.9 = permit.forkDepth
    opaque.10 = permit.room
  }

  fileprivate var plain: PlainPermit {
    var permit = PlainPermit()
    permit.flags = opaque.1
    permit.word = opaque.2
    permit.room = opaque.10
    // The other words are not written for it.
    if permit.has(PlainPermit.limited) { return permit }
    permit.start = Int64(bitPattern: opaque.3)
    permit.generation = Int64(bitPattern: opaque.4)
    permit.lease = Int64(bitPattern: opaque.5)
    permit.deadline = Int64(bitPattern: opaque.6)
    permit.breaker = Int64(bitPattern: opaque.7)
    permit.lineage = Int64(bitPattern: opaque.8)
    permit.forkDepth = opaque.9
    return permit
  }

  /// The room that the call has taken, or that of the call which it is inside of; 0 if it has none.
  func room() throws(Failure) -> (room: UInt64, isOwn: Bool) {
    try Given.size(size, MemoryLayout<sb_permit>.size, "permit")
    if serial == 0 { throw .permitUsed }
    if isHealthy { return (0, false) }
    return (opaque.10, PlainPermit.hasRoom(opaque.10, flags: opaque.1))
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
    unsafe permit.pointee.isFree, flags & ~Given.flagsOfEntering == 0,
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
  @inline(__always) func wait(_ breaker: Breaker) -> Int64? { breaker.waitFromMemory() }
  if let wait = unsafe handle.pointee.breaker._withUnsafeGuaranteedRef(wait) {
    if let rejection = unsafe rejection { unsafe rejection.pointee.beOpen(for: wait) }
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
        try breaker.enter(mayWait: call.mayWait, insideOf: ThreadCalls.outers(with: room)) {
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
  func answer(_ decision: Decision<PlainPermit>) -> sb_code {
    switch decision {
    case .permitted(var plain):
      if has(SB_SURROUND), plain.hasRoom, ThreadCalls.add(plain.room) {
        plain.flags |= PlainPermit.surrounds
      }
      unsafe permit.pointee.give(plain, by: serial)
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
      unsafe permit.serial == closed.pointee.serial, !permit.isHealthy,
      unsafe closed.pointee.store.takeUnretainedValue().isClosed
    {
      // Others could not have its room until this process ends.
      unsafe closed.pointee.breaker.takeUnretainedValue().giveBackRoom(of: permit.plain)
    }
    let (_, serial) = try unsafe BreakerHandle.usable(handle)
    guard let permit = unsafe permit else { throw .argument("the permit is NULL") }
    try unsafe permit.pointee.check(givenBy: serial)
    try Given.flags(flags, allowed: SB_NOWAIT)
    let (outcome, elapsed) = try unsafe Given.outcome(outcome, details)
    let given = unsafe permit.pointee
    let mayWait = flags & UInt32(SB_NOWAIT.rawValue) == 0
    let verdict = try unsafe passing(to: handle, mayWait: mayWait) { breaker throws(Failure) in
      given.isHealthy
        ? breaker.leave(given.call, outcome, elapsed: elapsed, mayWait: mayWait)
        : breaker.leave(given.plain, outcome, elapsed: elapsed, mayWait: mayWait)
    }
    guard let verdict else {
      return mayWait ? SB_INTERRUPTED.rawValue : SB_WOULD_BLOCK.rawValue
    }
    if !given.isHealthy, given.plain.has(PlainPermit.surrounds) {
      ThreadCalls.remove(given.plain.room)
    }
    unsafe permit.pointee.use()
    return verdict.code.rawValue
  } catch {
    return unsafe told(error, to: ErrorPlace.at(handle))
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
    if permit.isHealthy { return SB_OK }
    let holds = try throwingFailures(ofBreaker: { () throws(BreakerError) in
      try breaker.renew(permit.plain, for: time)
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
