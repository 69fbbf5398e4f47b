internal import BreakerDocuments
internal import BreakerStore
internal import CSharedBreaker
internal import SharedBreaker

/// A hook in which a C program takes part.
final class OpenHook: Sendable {
  let store: ClosableStore
  let part: Guarded<HookPart>

  init(_ part: sending HookPart, of store: ClosableStore) {
    self.part = Guarded(part)
    self.store = store
  }

  /// Writes the result that is noted, if any.
  func deliver() throws(Failure) {
    try throwingFailures { () throws(StoreError) in
      try part.withLock { part throws(StoreError) in try part.deliver() }
    }
  }
}

@c @implementation
package func sb_hook_open(
  _ store: OpaquePointer?, _ hook_name: UnsafePointer<CChar>?, _ hook_name_length: Int64,
  _ name: UnsafePointer<CChar>?, _ name_length: Int64, _ timeout_ns: Int64, _ attempts: CInt,
  _ hook: UnsafeMutablePointer<OpaquePointer?>?
) -> CInt {
  unsafe answer(store) { () throws(Failure) in
    guard let hook = unsafe hook else { throw .argument("there is no place for the hook") }
    unsafe hook.pointee = nil
    let opened = try unsafe ClosableStore.at(store)
    let hookName = try unsafe CText.required(hook_name, hook_name_length, "hook's name")
    if hookName.isEmpty { throw .argument("the hook's name is empty") }
    let name = try unsafe CText.read(name, name_length, "name")
    try throwingFailures(ofBreaker: { () throws(BreakerError) in
      if let name { try Breaker.validate(name: name) }
    })
    guard attempts >= 0 else { throw .argument("attempts is \(attempts)") }
    let part = HookPart(
      of: try opened.usable, hook: hookName, name: name,
      timeout: try Given.duration(timeout_ns, "timeout_ns") ?? .seconds(60),
      attempts: attempts == 0 ? 5 : Int(attempts))
    let made = OpenHook(part, of: opened)
    opened.add(made)
    unsafe hook.pointee = Handle.make(made, .hook)
    return SB_OK
  }
}

@c @implementation
package func sb_hook_take(
  _ hook: OpaquePointer?, _ entry: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?,
  _ length: UnsafeMutablePointer<Int64>?, _ wait_ns: UnsafeMutablePointer<Int64>?
) -> CInt {
  unsafe answer(hook) { () throws(Failure) in
    unsafe wait_ns?.pointee = Int64(SB_UNKNOWN)
    let receiver = try unsafe TextReceiver(entry, length)
    let turn = try unsafe OpenHook.at(hook).part.withLock { part throws(Failure) in
      if part.hasEntry, !part.isParents {
        throw Failure(SB_ERR_HOOK, "say what became of the last entry first")
      }
      do throws(StoreError) { return try part.take() } catch { throw Failure(error) }
    }
    switch turn {
    case .run(let entry):
      try receiver.take(EntryDocument.of(entry).text)
      return SB_OK
    case .skipped:
      return SB_SKIPPED
    case .nothing(let wait):
      if let wait { unsafe wait_ns?.pointee = wait.inNanoseconds }
      return SB_NOTHING
    }
  }
}

@c @implementation
package func sb_hook_done(_ hook: OpaquePointer?, _ result: CInt) -> CInt {
  unsafe answer(hook) { () throws(Failure) in
    let outcome = try HookPart.Outcome(result)
    try unsafe OpenHook.at(hook).part.withLock { part throws(Failure) in
      guard part.hasEntry else { throw Failure(SB_ERR_HOOK, "the hook has no entry") }
      if part.isParents { throw Failure(SB_ERR_FORKED, "the entry is the parent's") }
      part.note(outcome)
    }
    return SB_OK
  }
}

@c @implementation
package func sb_hook_free(_ hook: OpaquePointer?) {
  _ = unsafe answer(hook) { () throws(Failure) in
    if unsafe hook == nil { return SB_OK }
    defer { unsafe Handle.free(hook, .hook) }
    let opened = try unsafe Handle.object(OpenHook.self, at: hook, .hook)
    opened.store.remove(opened)
    _ = try opened.store.usable
    opened.part.withLock { part in if !part.isParents { part.note(.released) } }
    // Where that cannot be written, the others wait for the timeout.
    try opened.deliver()
    return SB_OK
  }
}

extension OpenHook {
  /// The hook at a pointer of the caller, if its store was not closed.
  fileprivate static func at(_ pointer: OpaquePointer?) throws(Failure) -> OpenHook {
    let hook = try unsafe Handle.object(OpenHook.self, at: pointer, .hook)
    _ = try hook.store.usable
    return hook
  }
}

extension HookPart.Outcome {
  fileprivate init(_ number: CInt) throws(Failure) {
    switch number {
    case CInt(SB_HANDLED.rawValue): self = .handled
    case CInt(SB_FAILED.rawValue): self = .failed
    case CInt(SB_RELEASED.rawValue): self = .released
    default: throw .argument("\(number) is not in the enum sb_hook_result")
    }
  }
}
