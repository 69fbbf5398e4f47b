internal import BreakerCore
internal import CSharedBreaker
internal import SharedBreaker

@c @implementation
package func sb_breaker_open(
  _ store: OpaquePointer?, _ name: UnsafePointer<CChar>?, _ name_length: Int64,
  _ policy: UnsafePointer<CChar>?, _ policy_length: Int64, _ on_store_failure: CInt,
  _ breaker: UnsafeMutablePointer<OpaquePointer?>?
) -> CInt {
  unsafe answer(store) { () throws(Failure) in
    guard let breaker = unsafe breaker else {
      throw .argument("there is no place for the breaker")
    }
    unsafe breaker.pointee = nil
    let opened = try unsafe ClosableStore.at(store)
    let store = try opened.usable
    let name = try unsafe CText.required(name, name_length, "name")
    let words = try unsafe CText.read(policy, policy_length, "policy")
    let action = try Given.storeFailure(on_store_failure)
    let made = try store.breaker(name, words: words, onStoreFailure: action)
    unsafe breaker.pointee = BreakerHandle.make(made, of: opened)
    return SB_OK
  }
}

extension SharedStore {
  /// Gets a breaker, and declares the policy that the words describe, if any.
  func breaker(
    _ name: String, words: String?, onStoreFailure action: StoreFailureAction? = nil
  ) throws(Failure) -> Breaker {
    try throwingFailures(ofBreaker: { () throws(BreakerError) in
      try Breaker.validate(name: name)
      let policy = try words.map { words throws(BreakerError) in
        try BreakerPolicy(words: words, of: name)
      }
      return try breaker(
        name, policy: policy, onStoreFailure: action, createsStore: false)
    })
  }
}

extension BreakerPolicy {
  fileprivate init(words: String, of name: String) throws(BreakerError) {
    do throws(PolicyError) {
      try self.init(words: words)
    } catch {
      throw .invalidPolicy(name: name, error)
    }
  }
}

@c @implementation
package func sb_breaker_claiming(
  _ breaker: OpaquePointer?, _ units: Int32, _ flags: UInt32,
  _ claiming: UnsafeMutablePointer<OpaquePointer?>?
) -> CInt {
  unsafe answer(breaker) { () throws(Failure) in
    guard let claiming = unsafe claiming else {
      throw .argument("there is no place for the breaker")
    }
    unsafe claiming.pointee = nil
    try Given.flags(flags, allowed: SB_BACKGROUND)
    guard units >= 1 else { throw .argument("a call takes 1 unit or more, not \(units)") }
    let claim = BreakerClaim(units: units, isInBackground: flags != 0)
    unsafe claiming.pointee = try BreakerHandle.claiming(claim, of: breaker)
    return SB_OK
  }
}

@c @implementation
package func sb_breaker_free(_ breaker: OpaquePointer?) {
  _ = unsafe answer(breaker) { () throws(Failure) in
    unsafe BreakerHandle.free(breaker)
    return SB_OK
  }
}

@c @implementation
package func sb_breaker_health(_ breaker: OpaquePointer?) -> CInt {
  unsafe answer(breaker) { () throws(Failure) in
    try unsafe BreakerHandle.usable(breaker).0.health.code
  }
}

@c @implementation
package func sb_breaker_state(
  _ breaker: OpaquePointer?, _ state: UnsafeMutablePointer<CInt>?
) -> CInt {
  unsafe answer(breaker) { () throws(Failure) in
    guard let state = unsafe state else { throw .argument("there is no place for the state") }
    unsafe state.pointee = CInt(try unsafe BreakerHandle.usable(breaker).0.state.rawValue)
    return SB_OK
  }
}

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
package func sb_hold(
  _ breaker: OpaquePointer?, _ for_ns: Int64, _ reason: UnsafePointer<CChar>?,
  _ reason_length: Int64
) -> CInt {
  unsafe answer(breaker) { () throws(Failure) in
    guard let time = try Given.duration(for_ns, "for_ns") else {
      throw .argument("for_ns is 0: say how long calls are to be held")
    }
    try unsafe changed(breaker, reason, reason_length) { breaker, reason throws(BreakerError) in
      try breaker.hold(for: time, reason: reason)
    }
    return SB_OK
  }
}

@c @implementation
package func sb_hold_end(
  _ breaker: OpaquePointer?, _ reason: UnsafePointer<CChar>?, _ reason_length: Int64
) -> CInt {
  unsafe answer(breaker) { () throws(Failure) in
    try unsafe changed(breaker, reason, reason_length) { breaker, reason throws(BreakerError) in
      try breaker.endHold(reason: reason)
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
