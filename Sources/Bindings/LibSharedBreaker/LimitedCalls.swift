package import CSharedBreaker
internal import SharedBreaker

// Calls under a limit that find a free slot, and calls that must be under none.
//
// The former do not pass the gate that keeps forks away, because they take no lock; Swift's globals
// are made before (`ThreadCalls.prepare`).

@c @implementation
package func sb_enter_inside(
  _ breaker: OpaquePointer?, _ room: UInt64, _ permit: UnsafeMutablePointer<sb_permit>?,
  _ rejection: UnsafeMutablePointer<sb_rejection>?, _ flags: UInt32
) -> CInt {
  if let handle = unsafe BreakerHandle.at(breaker), let permit = unsafe permit,
    unsafe permit.pointee.isFree,
    flags & ~(Given.flagsOfHealthyCalls & ~UInt32(SB_UNLIMITED.rawValue)) == 0,
    unsafe rejection == nil
      || rejection?.pointee.size == UInt32(MemoryLayout<sb_rejection>.size),
    unsafe handle.pointee.store._withUnsafeGuaranteedRef({ !$0.isClosed }),
    unsafe enterWithinLimit(handle, room, permit, flags)
  {
    return SB_OK.rawValue
  }
  return unsafe enterWithCare(breaker, room, permit, rejection, flags)
}

/// Permits a call under a limit if that takes no more than a free slot.
///
/// - Parameters:
///   - handle: The breaker.
///   - room: The room of a call that surrounds this one; 0 if the caller names none.
///   - permit: Receives the permit.
///   - flags: As for `sb_enter`. Everything that the caller passes has been checked.
/// - Returns: Whether the call is permitted.
@inline(__always)
func enterWithinLimit(
  _ handle: UnsafeMutablePointer<BreakerHandle>, _ room: UInt64,
  _ permit: UnsafeMutablePointer<sb_permit>, _ flags: UInt32
) -> Bool {
  @inline(__always) func take(_ breaker: Breaker) -> LimitedCall {
    breaker.enterLimited(insideOf: ThreadCalls.outers(with: room))
  }
  let call = unsafe handle.pointee.breaker._withUnsafeGuaranteedRef(take)
  guard call.isPermitted else { return false }
  unsafe permit.pointee.give(call, by: handle.pointee.serial)
  if flags & UInt32(SB_SURROUND.rawValue) != 0, ThreadCalls.add(call.room) {
    unsafe permit.pointee.isAround = true
  }
  return true
}

/// Reports the success of a call under a limit if that takes no more than freeing its slot.
///
/// - Returns: Whether it was reported.
@inline(__always)
func leaveWithinLimit(
  _ handle: UnsafeMutablePointer<BreakerHandle>, _ permit: UnsafeMutablePointer<sb_permit>
) -> Bool {
  guard unsafe permit.pointee.isLimitedCall(of: handle.pointee.serial),
    unsafe handle.pointee.store._withUnsafeGuaranteedRef({ !$0.isClosed })
  else { return false }
  let call = unsafe permit.pointee.limitedCall
  @inline(__always) func leave(_ breaker: Breaker) -> Bool { breaker.leaveLimited(call) }
  guard unsafe handle.pointee.breaker._withUnsafeGuaranteedRef(leave) else { return false }
  if unsafe permit.pointee.isAround { ThreadCalls.remove(call.room) }
  unsafe permit.pointee.use()
  return true
}

/// Permits a call only if it is under no limit.
func enterUnlimited(
  _ handle: OpaquePointer?, _ call: EnteringCall
) throws(Failure) -> sb_code {
  let entry = try unsafe passing(to: handle, mayWait: call.mayWait) { breaker throws(Failure) in
    try throwingFailures(ofBreaker: { () throws(BreakerError) in
      try breaker.enterUnlimited(mayWait: call.mayWait, isRetry: call.has(SB_RETRY))
    })
  }
  switch entry {
  case .decided(let decision): return call.answer(decision)
  case .limited: return SB_LIMITED
  case nil: return SB_WOULD_BLOCK
  }
}
