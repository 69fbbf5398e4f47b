internal import BreakerStore
package import CSharedBreaker
internal import SharedBreaker

/// A turn that a C program waits for.
final class OpenTurn: Sendable {
  private let turn: CallTurn
  private let store: ClosableStore
  private let forkDepth = ForkGuard.depth

  /// The serial of the breaker, which its permit is for.
  let serial: UInt64

  init(_ turn: CallTurn, of store: ClosableStore, _ serial: UInt64) {
    self.turn = turn
    self.store = store
    self.serial = serial
  }

  deinit { turn.end() }

  var descriptor: Int32? { turn.descriptor }

  var isReady: Bool {
    get throws(Failure) {
      try checkOwner()
      return turn.isAnswered
    }
  }

  private func checkOwner() throws(Failure) {
    guard forkDepth == ForkGuard.depth else {
      throw Failure(SB_ERR_FORKED, "the turn is the parent's: enter in the child too")
    }
  }

  func take(_ call: EnteringCall) throws(Failure) -> sb_code {
    try checkOwner()
    _ = try store.usable
    let answer = try throwingFailures(ofBreaker: { () throws(BreakerError) in
      try turn.take(mayWait: call.mayWait)
    })
    switch answer {
    case .decided(let decision): return call.answer(decision)
    case .waits: return SB_WAITING
    case .hasToWait: return SB_WOULD_BLOCK
    case .isOver: throw Failure(SB_ERR_PERMIT_USED, "the turn has ended already")
    }
  }
}

@c @implementation
package func sb_turn_open(
  _ breaker: OpaquePointer?, _ room: UInt64, _ permit: UnsafeMutablePointer<sb_permit>?,
  _ rejection: UnsafeMutablePointer<sb_rejection>?,
  _ turn: UnsafeMutablePointer<OpaquePointer?>?, _ flags: UInt32
) -> CInt {
  unsafe open(breaker, room, permit, rejection, turn, flags, on: nil, waited: 0)
}

@c @implementation
package func sb_turn_open_on(
  _ breaker: OpaquePointer?, _ descriptor: CInt, _ waited: Int64, _ room: UInt64,
  _ permit: UnsafeMutablePointer<sb_permit>?, _ rejection: UnsafeMutablePointer<sb_rejection>?,
  _ turn: UnsafeMutablePointer<OpaquePointer?>?, _ flags: UInt32
) -> CInt {
  unsafe open(
    breaker, room, permit, rejection, turn, flags, on: descriptor < 0 ? nil : descriptor,
    waited: waited)
}

/// Asks for a permit, and for a turn on a descriptor of the caller's, or on one of its own.
private func open(
  _ breaker: OpaquePointer?, _ room: UInt64, _ permit: UnsafeMutablePointer<sb_permit>?,
  _ rejection: UnsafeMutablePointer<sb_rejection>?,
  _ turn: UnsafeMutablePointer<OpaquePointer?>?, _ flags: UInt32, on descriptor: CInt?,
  waited: Int64
) -> CInt {
  let place = unsafe ErrorPlace.at(breaker)
  do throws(Failure) {
    guard let turn = unsafe turn else { throw .argument("there is no place for the turn") }
    unsafe turn.pointee = nil
    guard waited >= 0 else { throw .argument("no call has waited for \(waited) ns") }
    let handle = unsafe ErrorPlace.handle(breaker)
    let call = try unsafe EnteringCall(
      handle, permit, rejection, flags, Given.flagsOfTurns)
    let code = try unsafe passing(to: handle, mayWait: call.mayWait) { breaker throws(Failure) in
      let beginning = try throwingFailures(ofBreaker: { () throws(BreakerError) in
        try breaker.beginTurn(
          mayWait: call.mayWait, isRetry: call.has(SB_RETRY),
          insideOf: ThreadCalls.outers(with: room), on: descriptor, waited: waited)
      })
      switch beginning {
      case .decided(let decision)?: return call.answer(decision)
      case .waits(let begun)?:
        unsafe turn.pointee = Handle.make(try BreakerHandle.turn(begun, of: handle), .turn)
        return SB_WAITING
      case .noDescriptor?:
        throw Failure(SB_ERR_RESOURCES, "the process has no descriptor left for a turn")
      case nil: return SB_WOULD_BLOCK
      }
    }
    return (code ?? SB_WOULD_BLOCK).rawValue
  } catch {
    return told(error, to: place)
  }
}

@c @implementation
package func sb_turn_descriptor(_ turn: OpaquePointer?) -> CInt {
  do throws(Failure) {
    return try unsafe Handle.object(OpenTurn.self, at: turn, .turn).descriptor ?? -1
  } catch {
    _ = unsafe told(error, to: ErrorPlace.at(turn))
    return -1
  }
}

@c @implementation
package func sb_turn_is_ready(_ turn: OpaquePointer?) -> CInt {
  do throws(Failure) {
    let open = try unsafe Handle.object(OpenTurn.self, at: turn, .turn)
    return (try open.isReady ? SB_OK : SB_NOTHING).rawValue
  } catch {
    return unsafe told(error, to: ErrorPlace.at(turn))
  }
}

@c @implementation
package func sb_turn_take(
  _ turn: OpaquePointer?, _ permit: UnsafeMutablePointer<sb_permit>?,
  _ rejection: UnsafeMutablePointer<sb_rejection>?, _ flags: UInt32
) -> CInt {
  let place = unsafe ErrorPlace.at(turn)
  do throws(Failure) {
    let open = try unsafe Handle.object(OpenTurn.self, at: turn, .turn)
    let call = try unsafe EnteringCall(
      by: open.serial, permit, rejection, flags, Given.flagsOfTurns)
    let code =
      call.mayWait
      ? try CallGate.shared.pass { () throws(Failure) in try open.take(call) }
      : try CallGate.shared.passAtOnce { () throws(Failure) in try open.take(call) }
    return (code ?? SB_WOULD_BLOCK).rawValue
  } catch {
    return told(error, to: place)
  }
}

@c @implementation
package func sb_turn_free(_ turn: OpaquePointer?) {
  _ = unsafe answer(turn) { () throws(Failure) in
    unsafe Handle.free(turn, .turn)
    return SB_OK
  }
}
