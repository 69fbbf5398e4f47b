internal import BreakerCore
internal import CSharedBreaker
internal import SharedBreaker

@c @implementation
package func sb_reset(
  _ breaker: OpaquePointer?, _ reason: UnsafePointer<CChar>?, _ reason_length: Int64
) -> CInt {
  unsafe answer(breaker) { () throws(Failure) in
    try unsafe changed(breaker, reason, reason_length) { breaker, reason throws(BreakerError) in
      try breaker.reset(reason: reason)
    }
    return SB_OK
  }
}

@c @implementation
package func sb_trip(
  _ breaker: OpaquePointer?, _ for_ns: Int64, _ reason: UnsafePointer<CChar>?,
  _ reason_length: Int64
) -> CInt {
  unsafe answer(breaker) { () throws(Failure) in
    let time = try Given.duration(for_ns, "for_ns")
    try unsafe changed(breaker, reason, reason_length) { breaker, reason throws(BreakerError) in
      try breaker.trip(for: time, reason: reason)
    }
    return SB_OK
  }
}

@c @implementation
package func sb_force(
  _ breaker: OpaquePointer?, _ mode: CInt, _ for_ns: Int64, _ reason: UnsafePointer<CChar>?,
  _ reason_length: Int64
) -> CInt {
  unsafe answer(breaker) { () throws(Failure) in
    let mode = try Given.mode(mode)
    let time = try Given.duration(for_ns, "for_ns")
    try unsafe changed(breaker, reason, reason_length) { breaker, reason throws(BreakerError) in
      try breaker.force(mode, for: time, reason: reason)
    }
    return SB_OK
  }
}

/// Changes a breaker by hand, for a reason.
private func changed(
  _ breaker: OpaquePointer?, _ reason: UnsafePointer<CChar>?, _ length: Int64,
  _ body: (Breaker, String?) throws(BreakerError) -> Void
) throws(Failure) {
  let (breaker, _) = try unsafe BreakerHandle.usable(breaker)
  let reason = try unsafe CText.read(reason, length, "reason")
  try throwingFailures(ofBreaker: { () throws(BreakerError) in try body(breaker, reason) })
}
