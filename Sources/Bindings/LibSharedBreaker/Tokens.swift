internal import BreakerCore
package import CSharedBreaker
internal import SharedBreaker

@c @implementation
package func sb_token_acquire(
  _ breaker: OpaquePointer?, _ pid: Int32,
  _ token: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?,
  _ length: UnsafeMutablePointer<Int64>?, _ rejection: UnsafeMutablePointer<sb_rejection>?
) -> CInt {
  unsafe answer(breaker) { () throws(Failure) in
    let receiver = try unsafe TextReceiver(token, length)
    let (breaker, _) = try unsafe BreakerHandle.usable(breaker)
    if let size = unsafe rejection?.pointee.size {
      try Given.size(size, MemoryLayout<sb_rejection>.size, "rejection")
    }
    guard pid >= 0 else { throw .argument("there is no process \(pid)") }
    let made: PermitToken
    do throws(BreakerError) {
      made = try breaker.acquireToken(endingWith: pid == 0 ? nil : pid)
    } catch {
      guard case .rejected(_, let reason) = error else { throw Failure(error) }
      unsafe reason.fill(rejection)
      return SB_REJECTED
    }
    try receiver.take(made.description)
    return SB_OK
  }
}

@c @implementation
package func sb_token_report(
  _ store: OpaquePointer?, _ token: UnsafePointer<CChar>?, _ length: Int64, _ outcome: CInt,
  _ details: UnsafePointer<sb_details>?
) -> CInt {
  unsafe answer(store) { () throws(Failure) in
    let store = try unsafe ClosableStore.at(store).usable
    let token = try unsafe PermitToken(read: token, length)
    let (outcome, elapsed) = try unsafe Given.outcome(outcome, details)
    return try throwingFailures(ofBreaker: { () throws(BreakerError) in
      try store.report(token, outcome, elapsed: elapsed)
    }).code
  }
}

@c @implementation
package func sb_token_renew(
  _ store: OpaquePointer?, _ token: UnsafePointer<CChar>?, _ length: Int64, _ for_ns: Int64
) -> CInt {
  unsafe answer(store) { () throws(Failure) in
    let store = try unsafe ClosableStore.at(store).usable
    let token = try unsafe PermitToken(read: token, length)
    let time = try Given.duration(for_ns, "for_ns")
    let holds = try throwingFailures(ofBreaker: { () throws(BreakerError) in
      try store.renew(token, for: time)
    })
    return holds ? SB_OK : SB_REFUSED
  }
}

extension PermitToken {
  fileprivate init(read start: UnsafePointer<CChar>?, _ length: Int64) throws(Failure) {
    guard let token = PermitToken(try unsafe CText.required(start, length, "token")) else {
      throw Failure(SB_ERR_TOKEN, "not a token: pass what sb_token_acquire() handed out")
    }
    self = token
  }
}
